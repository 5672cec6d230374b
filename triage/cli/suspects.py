"""`triage suspects`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.classify import classify_log, open_log, packaged_rules
from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import AttributeOption, CaseOption, ProjectOption, format_option
from triage.compilers.registry import DEFAULT_FAMILY, Families
from triage.execution.runner import ProbeRunner
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failed, Failure
from triage.report.bisection import SuspectsReport
from triage.report.registry import write_report

if TYPE_CHECKING:
    from triage.bisect.pass_evidence import PassEvidence
    from triage.bisect.plan import Chase

_RECIPES = (".yaml", ".yml")


@command
def suspects(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE|LOG",
            help="A recipe, or a log with the failure in it; of IREE, or of the compiler that a REV names.",
        ),
    ],
    repo: Annotated[Path, typer.Option("--repo", metavar="DIR", help="A clone of the compiler.")],
    good: Annotated[str, typer.Option(help="REV or commit that compiles.")],
    bad: Annotated[str, typer.Option(help="REV or commit that fails.")],
    case: CaseOption = None,
    backend: Annotated[str | None, typer.Option(help="Of a log: what was compiled for, such as rocm.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many commits are shown.")] = 10,
    project: ProjectOption = None,
    attribute: AttributeOption = True,
    output: Annotated[str, format_option(SuspectsReport)] = "text",
) -> Exit:
    """Rank the commits between two revisions by how suspicious the failure makes them. Nothing is built.

    Of a recipe the failure is the one that was last seen; without one its backend and phase are what counts. A log is
    IREE's, or of the compiler that a REV names (`triton:3.1.0`). Where the
    compilers of both revisions are installed, their passes are compared, and the one where they part is suspected.
    """
    from triage.bisect.plan import Chase, span_between
    from triage.bisect.prior_clues import Clues
    from triage.bisect.ranking import rank

    if source.suffix in _RECIPES:
        chosen, failure = one_case(load_cases([source]), case), None
    else:
        named = (name for name in Families() if f"{name}:" in (good[: len(name) + 1], bad[: len(name) + 1]))
        chosen, failure = _from_log(source, backend, next(named, DEFAULT_FAMILY))
    with open_runner(context.obj, [chosen]) as bench:
        if source.suffix in _RECIPES:
            failure = _last_failure(bench, chosen)
        chase = Chase(bench, chosen, repo, project)
        timeline, span = span_between(chase, good, bad)
        clues = Clues.of(failure, chosen.target.backend) if failure else Clues(backend=backend, phase=chosen.phase)
        evidence = _evidence(chase, good, bad) if attribute and chosen.source.suffix in _RECIPES else None
        clues = evidence.added_to(clues) if evidence else clues
        ranked = rank(timeline, span, clues, chase.project.name, top, chase.project.repository)
    write_report(SuspectsReport(ranked, failure, len(span), evidence.told if evidence else None), output)
    return Exit.OK


def _last_failure(bench: ProbeRunner, case: Case) -> Failure | None:
    """Return the latest stored failure of the case. Names of cases are not unique, so its runs are found by content."""
    for name in bench.evidence.toolchains_of(case.name):
        try:
            ref = bench.shed.place(name, case.compiler)
            if not bench.shed.is_installed(ref):
                continue
            probe = bench.prober.recall(case, bench.shed.obtain(ref))
        except (BadInput, EnvironmentFailure):
            continue  # a toolchain that no longer exists
        if probe and isinstance(probe.outcome, Failed):
            return probe.outcome.failure
    return None


def _evidence(chase: Chase, good: str, bad: str) -> PassEvidence | None:
    """What the passes of both ends tell, where their compilers are here already."""
    from triage.bisect.pass_evidence import pass_evidence
    from triage.bisect.plan import end_of

    places = [end_of(chase, text).place for text in (good, bad)]
    older, newer = places
    if older is None or newer is None or not all(chase.bench.shed.is_installed(place) for place in (older, newer)):
        return None
    return pass_evidence(chase.bench, chase.case, older, newer, chase.repository)


def _from_log(log: Path, backend: str | None, compiler: str) -> tuple[Case, Failure | None]:
    with open_log(log) as stream:
        failures = classify_log(stream, packaged_rules())
    unknown = Input(log.absolute(), InputKind.OTHER)
    return Case(log.stem, log.stem, "", compiler, log, unknown, Target(backend or "")), failures[0] if failures else None
