"""`triage attribute`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from triage.cli.context import open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import SECONDS, FormatOption, OneCase, SlowerOption, option, rev_option
from triage.cli.screen import AppContext
from triage.execution.judge import Metric
from triage.report.attribution import attribution_document
from triage.report.formats import write_report


@command
def attribute(
    app: AppContext,
    chosen: OneCase,
    good: Annotated[str, rev_option("Known-good revision, which compiles.")],
    bad: Annotated[str, rev_option("Known-bad revision, which fails.")],
    repo: Annotated[
        Path | None, option("Clone of the compiler, to find the pass's source files.", "--repo", metavar="DIR")
    ] = None,
    metric: SlowerOption = None,
    output: FormatOption = "text",
) -> Exit:
    """Find the pass after which the IR of two compilers diverges.

    The comparison covers operations, types, nesting and chosen tile sizes. It ignores names, order, other attributes and
    spellings of versions. Constants and other attributes are compared when the bad revision compiles the program and
    nothing else differs.

    - `triage attribute recipes/cuda-matmul-f32.yaml --good 3.0.0 --bad 3.1.0 --repo ~/iree`

    - `triage attribute recipes/row-sum.yaml --metric run_seconds --good 3.10.0 --bad 3.11.0`
    """
    from triage.attribute.divergence import attribute as compare
    from triage.attribute.result import ComparisonResult
    from triage.bisect.metric import measuring, slower_kernel
    from triage.git_history import Repository

    case = chosen.load()
    clone = Repository(repo) if repo else None
    kernel = None
    with open_runner(app, [case]) as runner, ExitStack() as opened:
        ends = runner.registry.resolve(good, case.compiler), runner.registry.resolve(bad, case.compiler)
        judging = runner
        if metric is not None:
            judging = opened.enter_context(measuring(runner, case, ends, metric, SECONDS, times_only=True))
            if metric.startswith(str(Metric.RUN_SECONDS)):
                kernel = slower_kernel(runner, case, ends, SECONDS)
        found = compare(judging, case, *ends, clone, kernel=kernel)
    write_report(output, found, attribution_document)
    if found.status is not ComparisonResult.INCONCLUSIVE:
        return Exit.OK
    return exit_without_answer([found.cause])
