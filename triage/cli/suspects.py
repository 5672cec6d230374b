"""`triage suspects`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.classify import classify_log
from triage.cli.bench import load_cases, one_case, open_bench
from triage.cli.endings import Exit, guarded
from triage.cli.options import FormatOption, ProjectOption
from triage.cli.screen import Format, show, show_json
from triage.model.case import Case, Input, InputKind, Target
from triage.model.failure import Failure
from triage.probe.judge import known_failure
from triage.report.bisection import suspects_blocks
from triage.report.shapes import suspects_json


@guarded
def suspects(
    source: Annotated[Path, typer.Argument(metavar="RECIPE|LOG", help="A recipe, or a log with the failure in it.")],
    repo: Annotated[Path, typer.Option("--repo", metavar="DIR", help="A clone of the compiler.")],
    good: Annotated[str, typer.Option(help="REV or commit that compiles.")],
    bad: Annotated[str, typer.Option(help="REV or commit that fails.")],
    case: Annotated[str | None, typer.Option(help="Which case of a recipe with a matrix.")] = None,
    backend: Annotated[str | None, typer.Option(help="Of a log: what was compiled for, such as rocm.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many commits are shown.")] = 10,
    project: ProjectOption = None,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Rank the commits between two revisions by how suspicious the failure makes them. Nothing is built.

    Of a recipe the failure is the one that was last seen; without one its backend and phase are what counts.
    """
    from triage.bisect.plan import Chase, span_between
    from triage.bisect.prior import Clues
    from triage.bisect.ranking import rank

    with open_bench() as bench:
        if source.suffix in (".yaml", ".yml"):
            chosen = one_case(load_cases([source]), case)
            failure = known_failure(bench.evidence.failures_of(chosen.name))
        else:
            chosen, failure = _from_log(source, backend)
        chase = Chase(bench, chosen, repo, project)
        timeline, span = span_between(chase, good, bad)
        clues = Clues.of(failure, chosen.target.backend) if failure else Clues(backend=backend, phase=chosen.phase)
        ranked = rank(timeline, span, clues, chase.project.name, top, chase.project.repository)
    if output is Format.JSON:
        show_json(suspects_json(ranked, failure))
    else:
        show(suspects_blocks(ranked, failure, len(span)))
    return Exit.OK


def _from_log(log: Path, backend: str | None) -> tuple[Case, Failure | None]:
    with log.open("rb") as stream:
        failures = classify_log(stream)
    unknown = Input(log.absolute(), InputKind.OTHER)
    return Case(log.stem, log.stem, "", "iree", log, unknown, Target(backend or "")), failures[0] if failures else None
