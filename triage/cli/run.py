"""`triage run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from triage.cli.context import cases_named, load_cases, open_bench, places_of, shares
from triage.cli.exit_codes import Exit, exit_of, guarded
from triage.cli.options import FormatOption, FreshOption, JobsOption, RecipePaths
from triage.cli.screen import Format, console, show, show_json
from triage.execution.runner import ProbeJob
from triage.model.case import Case
from triage.report.grid import grid
from triage.report.shapes import run_json
from triage.report.terminal import run_blocks


@guarded
def run(
    paths: RecipePaths,
    toolchain: Annotated[
        list[str] | None,
        typer.Option("--toolchain", "-t", help="REV to compile with; repeat for several. Default: the installed one."),
    ] = None,
    case: Annotated[str | None, typer.Option(help="Only cases whose name contains this.")] = None,
    jobs: JobsOption = None,
    fresh: FreshOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command lines, run nothing.")] = False,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Compile every case on every toolchain, name each failure, and keep the result.

    A second run compiles nothing again. Exit 1 when a case failed that its recipe does not expect to fail.

    - `triage run recipes/` compiles all recipes with the installed compiler

    - `triage run recipes/cuda-matmul-f32.yaml -t 3.3.0 -t latest` compares two releases

    - `triage run recipes/ -t 3.3.0 -t triton:3.2.0` compiles recipes of several compilers, each with its own
    """
    cases = cases_named(load_cases(paths), case)
    with open_bench(cases, jobs, fresh=fresh) as bench:
        todo: list[ProbeJob] = []
        grids: list[tuple[Sequence[Case], list[str]]] = []
        for share in shares(cases, toolchain or ["installed"]):
            places = places_of(bench, share.family, share.revs)
            todo += [ProbeJob(one, place, fresh) for place in places for one in share.cases]
            grids.append((share.cases, [place.revision.name for place in places]))
        if dry_run:
            for line in bench.command_lines(todo):
                typer.echo(line)
            return Exit.OK
        found = {(probe.case.name, probe.revision.name): probe for probe in bench.probe_all(todo)}
    probes = [found[one.name, name] for some, names in grids for one in some for name in names]
    if output is Format.JSON:
        show_json(run_json(probes))
    else:
        for some, names in grids:
            if len(names) > 2:
                rows = [(one.name, [found[one.name, name] for name in names]) for one in some]
                show(grid(rows, names, console().width))
        show(run_blocks(probes))
    return exit_of(probes)
