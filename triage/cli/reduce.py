"""`triage reduce`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import (
    MATCHES,
    CaseOption,
    ExecutorOption,
    FailureMatch,
    ForecastOption,
    JobsOption,
    RecipePath,
    SuiteOption,
    format_option,
    rev_option,
)
from triage.execution.results import forecast
from triage.execution.task import ProbeJob
from triage.reduce.reproducer import reproducer_of
from triage.reduce.workflow import ReductionRequest, reduce_case
from triage.report.forecast import forecast_document
from triage.report.formats import write_report
from triage.report.reduction import reduction_document
from triage.report.reproducer import folder_for, write_reproducer


@command
def reduce(
    context: typer.Context,
    recipe: RecipePath,
    toolchain: Annotated[str, rev_option("--toolchain", "-t", text="REV that fails.")],
    good: Annotated[str | None, rev_option(text="REV that must still compile, to keep a regression.")] = None,
    case: CaseOption = None,
    suite_config: SuiteOption = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the reproducer's folder.")] = Path("reproducers"),
    match: Annotated[FailureMatch, typer.Option(help="What counts as the same failure.")] = FailureMatch.SIGNATURE,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Compiles before a program counts as passing (default: by how often it fails).")
    ] = None,
    jobs: JobsOption = None,
    executor: ExecutorOption = None,
    dry_run: ForecastOption = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the best program of an interrupted run of the same reduction.")
    ] = False,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Reduce the program of a failing case to a minimal reproducer.

    Compiles every candidate: it must show the same failure and, with --good, still compile there. Writes a folder with the
    program, a recipe, a shell script and a README for an issue.

    - `triage reduce recipes/cuda-matmul-f32.yaml -t 3.3.0 --good 3.0.0`
    """
    context.obj.executor = executor
    chosen = one_case(load_cases([recipe], suite_config), case)
    folder_for(out, chosen)
    with open_runner(context.obj, [chosen], jobs) as runner:
        bad = runner.registry.resolve(toolchain, chosen.compiler)
        better = runner.registry.resolve(good, chosen.compiler) if good else None
        if dry_run:
            planned = [ProbeJob(chosen, ref) for ref in (bad, better) if ref]
            remark = "then the candidates; their number depends on the program"
            write_report(output, forecast(runner, planned, remark=remark), forecast_document)
            return Exit.OK
        request = ReductionRequest(chosen, bad, better, MATCHES[match], repeats, resume)
        reduction, found = reduce_case(runner, request), None
        if reduction.reason is None:
            found = reproducer_of(runner, reduction, bad)
            reduction = replace(found.reduction, reproducer=str(write_reproducer(found, out)))
    write_report(output, reduction, partial(reduction_document, reproducer=found))
    return Exit.OK if found else exit_without_answer([reduction.cause])
