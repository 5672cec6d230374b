"""`triage run`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from triage.cli.context import select_families, show_command_lines
from triage.cli.exit_codes import Exit, command, exit_for_probes
from triage.cli.options import Compiling, DryRunOption, FreshOption, JUnitFormatOption, SeveralCases, ToolchainsOption, flag
from triage.execution.results import RunResults, run_result
from triage.execution.task import ProbeJob
from triage.report.formats import write_report
from triage.report.junit import run_junit
from triage.report.runs import run_document


@command
def run(
    chosen: SeveralCases,
    compiling: Compiling,
    toolchain: ToolchainsOption = None,
    fresh: FreshOption = False,
    show_all: Annotated[bool, flag("Show the cases that pass everywhere, too.", "--all")] = False,
    dry_run: DryRunOption = False,
    output: JUnitFormatOption = "text",
) -> Exit:
    """Compile every case on every toolchain and report failures.

    Results are cached; a second run compiles nothing. Exit 1 when a case fails that its recipe does not expect to fail.

    - `triage run recipes/cuda-matmul-f32.yaml -t 3.3.0 -t latest`

    - `triage run recipes/ -t 3.3.0 -t triton:3.2.0` compiles recipes of several compilers, each with its own
    """
    cases = chosen.load()
    with compiling.open(*cases, fresh=fresh) as runner:
        selections = [(one.cases, one.refs(runner)) for one in select_families(cases, toolchain or ["installed"])]
        planned = [ProbeJob(case, ref) for cases, refs in selections for ref in refs for case in cases]
        if dry_run:
            return show_command_lines(runner, planned)
        probes = {(probe.case.name, probe.revision.name): probe for probe in runner.probe_all(planned)}
    ordered = [probes[case.name, ref.revision.name] for cases, refs in selections for case in cases for ref in refs]
    result = RunResults([run_result(probe) for probe in ordered])
    write_report(output, result, partial(run_document, show_all=show_all), junit=run_junit)
    return exit_for_probes(ordered)
