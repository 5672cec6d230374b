"""`triage suspects`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from triage.classify import classify_log, packaged_rules
from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption, OneCaseOption, ProjectOption, argument, option
from triage.cli.screen import AppContext
from triage.compilers.registry import DEFAULT_FAMILY, Families
from triage.execution.engine import Engine
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failed, Failure
from triage.report.bisection import suspects_document
from triage.report.formats import write_report

_RECIPES = (".yaml", ".yml")


@command
def suspects(
    app: AppContext,
    source: Annotated[
        Path,
        argument("RECIPE|LOG", "Recipe, or log with the failure; of the default compiler unless a REV names another."),
    ],
    repo: Annotated[Path, option("Clone of the compiler.", "--repo", metavar="DIR")],
    good: Annotated[str, option("Known-good revision or commit.")],
    bad: Annotated[str, option("Known-bad revision or commit.")],
    case: OneCaseOption = None,
    backend: Annotated[str | None, option("Backend that a log is about, such as rocm.")] = None,
    project: ProjectOption = None,
    output: FormatOption = "text",
) -> Exit:
    """Rank the commits between two revisions by how suspicious the failure makes them. Nothing is built.

    Commits of the good revision's branch that the bad one lacks, also as cherry-picks, are ranked, too: a fix may be missing.
    For a recipe, the failure is the one that was found last. A log is of IREE, or of the compiler that a REV names
    (`triton:3.1.0`). For a recipe, the passes of both compilers are compared if they are installed. Commits that change the
    pass after which the two first differ are then more suspicious, as are those that change which passes run.
    """
    from triage.bisect.search import BisectRequest
    from triage.bisect.suspects import rank_changes

    is_recipe = source.suffix in _RECIPES
    if is_recipe:
        chosen, failure = one_case(load_cases([source]), case), None
    else:
        named = (name for name in Families() if f"{name}:" in (good[: len(name) + 1], bad[: len(name) + 1]))
        chosen, failure = _from_log(source, backend, next(named, DEFAULT_FAMILY))
    with open_runner(app, [chosen]) as runner:
        failure = _last_failure(runner, chosen) if is_recipe else failure
        ranked = rank_changes(BisectRequest(runner, chosen, repo, project, attribute=is_recipe), good, bad, failure)
    write_report(output, ranked, suspects_document)
    return Exit.OK


def _last_failure(runner: Engine, case: Case) -> Failure | None:
    """Return the latest stored failure of the case. Names of cases are not unique, so its runs are found by content."""
    for name in (record.toolchain for record in runner.cache.newest_of(case.name)):
        try:
            ref = runner.registry.resolve(name, case.compiler)
            if not runner.registry.is_installed(ref):
                continue
            probe = runner.known_on(case, runner.registry.obtain(ref))
        except (BadInput, EnvironmentFailure):
            continue  # a toolchain that no longer exists
        if probe and isinstance(probe.outcome, Failed):
            return probe.outcome.failure
    return None


def _from_log(log: Path, backend: str | None, compiler: str) -> tuple[Case, Failure | None]:
    failures = classify_log(log, packaged_rules())
    unknown = Input(log.absolute(), InputKind.OTHER)
    return Case(log.stem, log.stem, "", compiler, log, unknown, Target(backend or "")), failures[0] if failures else None
