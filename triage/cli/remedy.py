"""`triage remedy`."""

from __future__ import annotations

from typing import Annotated

import typer

from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import CaseOption, FormatOption, JobsOption, RecipePath
from triage.cli.screen import Format, show, show_json
from triage.execution.runner import ProbeJob


@command
def remedy(
    context: typer.Context,
    recipe: RecipePath,
    toolchain: Annotated[str, typer.Option("--toolchain", "-t", help="REV on which it fails.")],
    good: Annotated[
        str | None, typer.Option(help="REV that compiles it: its options show what is new, and remedies are tried there.")
    ] = None,
    case: CaseOption = None,
    budget: Annotated[int, typer.Option(min=1, help="Candidates to try at most, until one makes it compile.")] = 100,
    run: Annotated[
        bool,
        typer.Option(
            "--run", help="Run what was compiled for this machine's processor, five times, and tell how long it takes."
        ),
    ] = False,
    jobs: JobsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be tried; only the failing case is compiled.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Find flags that make a failing case compile, by trying them.

    First what is known to help against such a failure, then the compiler's own options nearest to what failed, alone and
    in pairs. What compiles is tried on --good and on the newest release too. Exit 3 when nothing was found.

    - `triage remedy recipes/cuda-matmul-f32.yaml -t 3.3.0 --good 3.0.0`
    """
    from triage.remedy.result import NothingToRemedy
    from triage.remedy.workflow import RemedyRequest, candidates, find_remedies
    from triage.report.remedy import candidates_lines, remedy_blocks, remedy_json

    cases = load_cases([recipe])
    chosen = one_case(cases, case)
    with open_runner(context.obj, cases, jobs) as bench:
        bad = bench.shed.place(toolchain, chosen.compiler)
        better = bench.shed.place(good, chosen.compiler) if good else None
        order = RemedyRequest(chosen, bad, better, budget, cases, run)
        if dry_run and not isinstance(planned := candidates(bench, order), NothingToRemedy):
            todo = [ProbeJob(change.applied(chosen), bad) for change in planned]
            for line in candidates_lines(planned, bench.command_lines(todo)):
                typer.echo(line)
            return Exit.OK
        found = find_remedies(bench, order)
    if output is Format.JSON:
        show_json(remedy_json(found))
    else:
        show(remedy_blocks(found))
    if isinstance(found, NothingToRemedy):
        return exit_without_answer([found.cause])
    return Exit.OK if found.found else Exit.INCONCLUSIVE
