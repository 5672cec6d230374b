"""`triage bench`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from triage.cli.context import cases_named, load_cases, open_runner, refs_of, select_one_family
from triage.cli.exit_codes import Exit, command
from triage.cli.options import CasesOption, DryRunOption, RecipePaths, SuiteOption, duration_of, format_option, rev_option
from triage.execution.benchmark import Benchmark, Configuration
from triage.execution.statistics import Pace
from triage.execution.task import ProbeJob
from triage.model.errors import BadInput, Interrupted
from triage.report.benchmark import benchmark_document
from triage.report.formats import write_report


@command
def bench(
    context: typer.Context,
    paths: RecipePaths,
    toolchain: Annotated[
        list[str] | None,
        rev_option("--toolchain", "-t", text="Toolchain to measure; repeatable (default: installed)."),
    ] = None,
    case: CasesOption = None,
    suite_config: SuiteOption = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Row to compare with: its case, its release or `CASE on RELEASE` (default: the first)."
        ),
    ] = None,
    dispatch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Measure single dispatches: those with NAME in theirs, or `all`."),
    ] = None,
    threshold: Annotated[float, typer.Option(min=0.0, help="Smallest change that counts, 0.05 for five percent.")] = 0.05,
    time: Annotated[str, typer.Option(metavar="DURATION", help="Measure for at most this long.")] = "60s",
    dry_run: DryRunOption = False,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Measure the run time of compiled programs side by side.

    All configurations (cases on toolchains) are measured in turn until every verdict is clear or time is up. What changed is
    measured a second time, from the start. Exit 1 when one is slower, 3 when a verdict is unclear and none is slower.

    - `triage bench recipes/row-sum.yaml -t 3.10.0 -t 3.11.0` compares two releases

    - `triage bench recipes/row-sum.yaml -t 3.10.0 -t 3.11.0 --dispatch all` compares their kernels one by one

    - `triage bench recipes/row-sum.yaml -t 3.10.0 -t 3.11.0 --baseline 3.11.0` compares with the second one
    """
    budget = duration_of("--time", time)
    cases = cases_named(load_cases(paths, suite_config), case)
    selection = select_one_family(cases, tuple(toolchain or ["installed"]), "bench")
    with open_runner(context.obj, selection.cases, 1) as runner:
        refs = refs_of(runner, selection.family, selection.revs)
        configurations = [Configuration(case, ref) for case in selection.cases for ref in refs]
        if dry_run:
            for line in runner.command_lines([ProbeJob(row.case, row.ref) for row in configurations]):
                typer.echo(line)
            return Exit.OK
        base, kernels = _baseline(configurations, baseline), "" if dispatch == "all" else dispatch
        benchmark = Benchmark(runner, configurations, base, threshold, budget, kernels)
        try:
            result = benchmark.run()
        except (KeyboardInterrupt, Interrupted):
            write_report(output, benchmark.result(stopped=True), benchmark_document)
            raise
    write_report(output, result, benchmark_document)
    paces = {series.comparison.pace for series in result.series if series.comparison}
    if Pace.SLOWER in paces:
        return Exit.FOUND
    unclear = Pace.NOISY in paces or any(series.reason is not None for series in result.series)
    return Exit.INCONCLUSIVE if unclear else Exit.OK


def _baseline(configurations: Sequence[Configuration], text: str | None) -> Configuration:
    """Return the configuration that a text names, or the first. Raises BadInput when not exactly one fits."""
    fitting = [row for row in configurations if text in (None, row.name, row.case.name, row.ref.revision.name)]
    if text is not None and len(fitting) != 1:
        names = ", ".join(repr(row.name) for row in fitting or configurations)
        raise BadInput(f"--baseline {text!r} names {len(fitting) or 'no'} rows; choose from {names}")
    return fitting[0]
