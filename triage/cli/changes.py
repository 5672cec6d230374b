"""The commands `history` and `suspects`: what changed, without a search for one
commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from triage.bisect.history import Histories, History, histories
from triage.bisect.request import BisectRequest
from triage.bisect.suspects import rank_changes
from triage.classify import classify_log, packaged_rules
from triage.cli.context import (
    cases_in,
    named_family,
    one_case,
    open_runner,
    select_one_family,
    show_forecast,
)
from triage.cli.exit_codes import Exit, command, exit_for_results
from triage.cli.options import (
    RECIPES,
    Compiling,
    ForecastOption,
    FormatOption,
    FreshOption,
    OneCaseOption,
    ProgramOptions,
    ProjectOption,
    SeveralCases,
    argument,
    clone_option,
    flag,
    option,
    rev_option,
)
from triage.cli.program import TEXTS
from triage.cli.screen import AppContext
from triage.compilers.registry import recipe_families
from triage.execution.engine import Engine
from triage.execution.own_program import case_with_own_program
from triage.execution.task import ProbeJob
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failed, Failure
from triage.report.bisection import history_document, suspects_document
from triage.report.formats import write_report
from triage.toolchains.registry import ToolchainRef

_SHARE = 0.5  # of all compiles, the most that a history spends


@command
def history(
    chosen: SeveralCases,
    compiling: Compiling,
    since: Annotated[
        str | None, rev_option("Oldest release (default: the first).")
    ] = None,
    until: Annotated[
        str | None, rev_option("Newest release (default: the last).")
    ] = None,
    every: Annotated[
        bool, flag("Compile on every release, so that no change is missed.", "--every")
    ] = False,
    fresh: FreshOption = False,
    dry_run: ForecastOption = False,
    output: FormatOption = "text",
) -> Exit:
    """Find every change of each case's status across releases.

    Without --every, most releases between two with the same status are not compiled, so
    a short window of failures can be missed. Releases where other cases change and
    those that a recipe's `expect` names are compiled first.
    """
    cases = chosen.load()
    families = list(dict.fromkeys(case.compiler for case in cases))
    bounds = [rev for rev in (since, until) if rev]
    if every:
        share, left_out = 1.0, None
    else:
        share = _SHARE
        left_out = "most releases between two with the same status are left out"
    found: list[History] = []
    planned: list[ProbeJob] = []
    with compiling.open(*cases, fresh=fresh) as engine:
        if bounds:
            families = [select_one_family(cases, bounds, "history").family]
        for family in families:
            refs = engine.registry.between(family, since, until)
            family_cases = [case for case in cases if case.compiler == family]
            if dry_run:
                planned += [
                    ProbeJob(case, ref, fresh) for case in family_cases for ref in refs
                ]
            else:
                found += _family_histories(engine, family_cases, refs, share)
        if dry_run:
            return show_forecast(output, engine, planned, left_out)
    write_report(output, Histories(found), history_document)
    code = exit_for_results(one for history in found for one in history.results)
    if code in (Exit.FOUND, Exit.INCONCLUSIVE):
        return Exit.OK
    return code


def _family_histories(
    engine: Engine, cases: Sequence[Case], refs: Sequence[ToolchainRef], share: float
) -> list[History]:
    """Find the history of each case of one family.

    A generated program of the newest release may lack what fails. Such a case gets a
    second history, with the program that an older release generates.
    """
    found = histories(engine, cases, refs, share=share)
    regenerated = []
    for history in found:
        tried = [ref for ref in refs if ref.revision.name in history.statuses]
        case = case_with_own_program(engine, history.about, tried, history.results)
        if case is not None:
            regenerated.append(case)
    return [*found, *histories(engine, regenerated, refs, share=share)]


@command
def suspects(
    app: AppContext,
    source: Annotated[
        Path,
        argument(
            "RECIPE|LOG",
            "Recipe, program, pasted issue, or log with the failure; a log is of "
            "the default compiler unless a REV names another.",
        ),
    ],
    repo: Annotated[Path, clone_option("Clone of the compiler.")],
    good: Annotated[str, option("Known-good revision or commit.")],
    bad: Annotated[str, option("Known-bad revision or commit.")],
    program: ProgramOptions,
    case: OneCaseOption = None,
    project: ProjectOption = None,
    output: FormatOption = "text",
) -> Exit:
    """Rank the commits between two revisions by how suspicious the failure makes them.
    Nothing is built.

    All failures of a log count. For a recipe or a program, its latest stored failures
    count. A text whose program cannot be run is read as a log, of IREE or of the
    compiler that a REV names (`triton:3.1.0`).

    Commits of the good revision's branch that the bad one lacks, also as cherry-picks,
    are ranked, too: a fix may be missing. For a recipe or a program, the passes of both
    compilers are compared if they are installed. Commits that change the pass after
    which the two first differ are then more suspicious, as are those that change which
    passes run. The 20 most suspicious changes are shown, all of them with --verbose.
    """
    failures: tuple[Failure, ...] = ()
    chosen = _case_to_run(program, source, case)
    if _is_read_as_text(source):
        failures = classify_log(source, packaged_rules()).failures
    has_program = chosen is not None
    if chosen is None:
        chosen = _log_case(source, program.backend, named_family(good, bad))
    with open_runner(app, [chosen]) as engine:
        if has_program:
            failures = (*_last_failures(engine, chosen), *failures)
        ranked = rank_changes(
            BisectRequest(engine, chosen, repo, project, attribute=has_program),
            good,
            bad,
            failures,
        )
    write_report(output, ranked, suspects_document)
    return Exit.OK


def _is_read_as_text(source: Path) -> bool:
    """Return whether a file is a log or an issue, not a program that a family reads."""
    if source.suffix in TEXTS:
        return True
    families = recipe_families().values()
    known = (*RECIPES, *(suffix for family in families for suffix in family.inputs))
    return source.suffix not in known


def _case_to_run(
    program: ProgramOptions, source: Path, name: str | None
) -> Case | None:
    """Return the case of a recipe, of a program, or of the program in a text.

    None for a text that has no program that can be run.
    """
    is_text = _is_read_as_text(source)
    if is_text and source.suffix not in TEXTS:
        return None
    try:
        recipes = program.recipes([source])
    except BadInput:
        # a text may hold no program, several, or one that no family reads
        if program.save or not is_text:
            raise
        return None
    return one_case(cases_in(recipes), name)


def _last_failures(engine: Engine, case: Case) -> tuple[Failure, ...]:
    """Return the latest stored failures of the case.

    Names of cases are not unique, so its runs are found by content.
    """
    for name in (record.toolchain for record in engine.cache.newest_of(case.name)):
        try:
            ref = engine.registry.resolve(name, case.compiler)
            if not engine.registry.is_installed(ref):
                continue
            probe = engine.known_on(case, engine.registry.obtain(ref))
        except (BadInput, EnvironmentFailure):
            continue  # a toolchain that no longer exists
        if probe and isinstance(probe.outcome, Failed):
            return (probe.outcome.failure, *probe.outcome.others)
    return ()


def _log_case(log: Path, backend: str | None, compiler: str) -> Case:
    """Return what is known of the case of a log: nothing but its compiler."""
    unknown = Input(log.absolute(), InputKind.OTHER)
    return Case(log.stem, log.stem, "", compiler, log, unknown, Target(backend or ""))
