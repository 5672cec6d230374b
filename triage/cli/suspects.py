"""`triage suspects`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from triage.bisect.result import RankedChanges
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

if TYPE_CHECKING:  # the prior needs numpy, which is slow to import
    from triage.bisect.pass_evidence import PassEvidence
    from triage.bisect.plan import BisectRequest

_SHOWN = 20  # commits
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
    For a recipe, the failure is the one that was found last. A log is of IREE, or
    of the compiler that a REV names (`triton:3.1.0`). Where the compilers of both revisions are installed, their passes are
    compared. Suspected are then the first pass where they diverge and passes that run with one of them only.
    """
    from triage.bisect.plan import BisectRequest, only_before, span_between
    from triage.bisect.prior import Clues, rank
    from triage.git_history import place_of, read_branches

    if source.suffix in _RECIPES:
        chosen, failure = one_case(load_cases([source]), case), None
    else:
        named = (name for name in Families() if f"{name}:" in (good[: len(name) + 1], bad[: len(name) + 1]))
        chosen, failure = _from_log(source, backend, next(named, DEFAULT_FAMILY))
    with open_runner(app, [chosen]) as runner:
        if source.suffix in _RECIPES:
            failure = _last_failure(runner, chosen)
        request = BisectRequest(runner, chosen, repo, project)
        timeline, span = span_between(request, good, bad)
        clues = Clues.of(failure, chosen.target.backend) if failure else Clues(backend=chosen.target.backend)
        evidence = _evidence(request, good, bad) if chosen.source.suffix in _RECIPES else None
        clues = evidence.added_to(clues) if evidence else clues
        branches = read_branches(timeline, [(good, span.good.sha), (bad, span.bad.sha)])
        undone = only_before(timeline, span, branches)
        ranked = rank(timeline, span, clues, request.project.name, _SHOWN, request.project.repository, undone)
    lacking = {commit.sha: f"{good} has it, {bad} lacks it" for commit in undone}
    placed = []
    for change in ranked:
        sha = change.commit or ""
        place = "; ".join(filter(None, [place_of(sha, branches), lacking.get(sha)]))
        placed.append(replace(change, branch=place or None))
    summary = evidence.summary if evidence else None
    count, lines = len(span) + len(undone), tuple(branches)
    write_report(output, RankedChanges(tuple(placed), count, failure, summary, lines), suspects_document)
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


def _evidence(request: BisectRequest, good: str, bad: str) -> PassEvidence | None:
    """Compare the passes of both ends where their compilers are installed."""
    from triage.bisect.pass_evidence import pass_evidence
    from triage.bisect.plan import range_end

    refs = [range_end(request, text).ref for text in (good, bad)]
    older, newer = refs
    if older is None or newer is None or not all(request.runner.registry.is_installed(ref) for ref in (older, newer)):
        return None
    return pass_evidence(request.runner, request.case, older, newer, request.repository)


def _from_log(log: Path, backend: str | None, compiler: str) -> tuple[Case, Failure | None]:
    failures = classify_log(log, packaged_rules())
    unknown = Input(log.absolute(), InputKind.OTHER)
    return Case(log.stem, log.stem, "", compiler, log, unknown, Target(backend or "")), failures[0] if failures else None
