"""`triage run`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from triage.cli.context import cases_named, load_cases, open_runner, refs_of, select_families
from triage.cli.exit_codes import Exit, command, exit_for_probes
from triage.cli.options import (
    CasesOption,
    DryRunOption,
    ExecutorOption,
    FreshOption,
    JobsOption,
    RecipePaths,
    SuiteOption,
    format_option,
    rev_option,
)
from triage.execution.results import RunResults, run_result
from triage.execution.task import ProbeJob
from triage.report.formats import write_report
from triage.report.runs import run_document, run_junit


@command
def run(
    context: typer.Context,
    paths: RecipePaths,
    toolchain: Annotated[
        list[str] | None,
        rev_option("--toolchain", "-t", text="Toolchain to compile with; repeatable (default: installed)."),
    ] = None,
    case: CasesOption = None,
    suite_config: SuiteOption = None,
    jobs: JobsOption = None,
    executor: ExecutorOption = None,
    fresh: FreshOption = False,
    show_all: Annotated[bool, typer.Option("--all", help="Show the cases that pass everywhere, too.")] = False,
    dry_run: DryRunOption = False,
    output: Annotated[str, format_option("junit")] = "text",
) -> Exit:
    """Compile every case on every toolchain and report failures.

    Results are cached; a second run compiles nothing. Exit 1 when a case fails that its recipe does not expect to fail.

    - `triage run recipes/` compiles all recipes with the installed compiler

    - `triage run recipes/cuda-matmul-f32.yaml -t 3.3.0 -t latest` compares two releases

    - `triage run recipes/ -t 3.3.0 -t triton:3.2.0` compiles recipes of several compilers, each with its own
    """
    cases = cases_named(load_cases(paths, suite_config), case)
    context.obj.executor = executor
    with open_runner(context.obj, cases, jobs, fresh=fresh) as runner:
        selections = [
            (selection.cases, refs_of(runner, selection.family, selection.revs))
            for selection in select_families(cases, toolchain or ["installed"])
        ]
        probe_jobs = [ProbeJob(case, ref) for cases, refs in selections for ref in refs for case in cases]
        if dry_run:
            for line in runner.command_lines(probe_jobs):
                typer.echo(line)
            return Exit.OK
        probes = {(probe.case.name, probe.revision.name): probe for probe in runner.probe_all(probe_jobs)}
    ordered = [probes[case.name, ref.revision.name] for cases, refs in selections for case in cases for ref in refs]
    result = RunResults([run_result(probe) for probe in ordered])
    write_report(output, result, partial(run_document, show_all=show_all), junit=run_junit)
    return exit_for_probes(ordered)
