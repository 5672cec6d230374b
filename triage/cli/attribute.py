"""`triage attribute`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import (
    SECONDS,
    CaseOption,
    RecipePath,
    SlowerOption,
    SuiteOption,
    format_option,
    rev_option,
    slower_metric,
)
from triage.execution.judge import Metric
from triage.report.attribution import attribution_document, write_attribution
from triage.report.formats import write_report


@command
def attribute(
    context: typer.Context,
    recipe: RecipePath,
    good: Annotated[str, rev_option(text="REV that compiles.")],
    bad: Annotated[str, rev_option(text="REV that fails.")],
    case: CaseOption = None,
    suite_config: SuiteOption = None,
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="DIR", help="Clone of the compiler, to find the pass's source files.")
    ] = None,
    metric: SlowerOption = None,
    phases: Annotated[
        bool, typer.Option("--phases/--no-phases", help="Compare the program after each phase too (two compiles per phase).")
    ] = True,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write attribution.html to this folder.")] = None,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Find the pass after which the IR of two compilers diverges.

    The comparison covers operations, types, nesting and chosen tile sizes. It ignores names, order, other attributes and
    spellings of versions. Constants and other attributes are compared when a program that compiles fails only when it
    runs, and nothing else differs.

    - `triage attribute recipes/cuda-matmul-f32.yaml --good 3.0.0 --bad 3.1.0 --repo ~/iree --out out`

    - `triage attribute recipes/row-sum.yaml --metric run_seconds --good 3.10.0 --bad 3.11.0` finds the pass that made it slower
    """
    from triage.attribute.divergence import Depth
    from triage.attribute.divergence import attribute as compare
    from triage.attribute.result import ComparisonResult
    from triage.bisect.slower import judged_by_time, slower_kernel
    from triage.git_history import Repository

    chosen = one_case(load_cases([recipe], suite_config), case)
    clone = Repository(repo) if repo else None
    kernel = None
    time_metric, function = slower_metric(metric)
    with open_runner(context.obj, [chosen]) as runner, ExitStack() as opened:
        older, newer = (runner.registry.resolve(text, chosen.compiler) for text in (good, bad))
        judging = runner
        if time_metric is not None:
            ends = (older, newer)
            judging = opened.enter_context(judged_by_time(runner, chosen, ends, time_metric, function, SECONDS))
            if time_metric == Metric.RUN_SECONDS:
                kernel = slower_kernel(runner, chosen, ends, SECONDS)
        found = compare(judging, chosen, older, newer, clone, Depth(phases=phases), kernel)
    write_report(output, found, attribution_document)
    if out:
        typer.echo(f"written: {write_attribution(found, out)}", err=output != "text")
    if found.status is not ComparisonResult.INCONCLUSIVE:
        return Exit.OK
    return exit_without_answer([found.cause])
