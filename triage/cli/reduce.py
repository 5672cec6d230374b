"""`triage reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, one_case, open_bench
from triage.cli.exit_codes import Exit, guarded
from triage.cli.options import MATCHES, CaseOption, FormatOption, Identity, JobsOption, RecipePath
from triage.cli.screen import Format, show, show_json
from triage.execution.metrics import Metric
from triage.model.outcome import Cause
from triage.reduce.reproducer import reproducer_of
from triage.reduce.state import NotReproducible
from triage.reduce.workflow import ReductionRequest, reduce_case


@guarded
def reduce(
    recipe: RecipePath,
    toolchain: Annotated[str, typer.Option("--toolchain", "-t", help="REV on which it fails.")],
    good: Annotated[str | None, typer.Option(help="REV that must go on compiling it: keeps it a regression.")] = None,
    case: CaseOption = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the reproducer's folder is made.")] = Path("reproducers"),
    match: Annotated[Identity, typer.Option(help="What counts as the same failure.")] = Identity.SIGNATURE,
    metric: Annotated[
        Metric | None, typer.Option(help="Nothing fails, but this number grew against --good: keep it that much larger.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Compiles before a program counts as passing. Default: by how often it fails.")
    ] = None,
    slipped: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Make a reproducer of each other failure that is met, here.")
    ] = None,
    jobs: JobsOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the best program of an earlier run of the same reduction.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Make the program that fails as small as it gets while it fails in the same way.

    Every step is compiled: only the same failure counts, and with --good only what that toolchain still compiles. The
    folder that is written has the program, a recipe, a shell script and a README for an issue.

    - `triage reduce recipes/cuda-matmul-f32.yaml -t 3.3.0 --good 3.0.0`

    - `triage reduce recipes/residual-blocks-gfx942.yaml -t 3.8.0 --good 3.7.1 --metric cpu_seconds`
    """
    from triage.report.reduction import reduction_blocks, reduction_json  # templates: needed here alone, and slow to import
    from triage.report.reproducer import place_for, write_reproducer

    chosen = one_case(load_cases([recipe]), case)
    place_for(out, chosen)
    with open_bench([chosen], jobs) as bench:
        bad = bench.shed.place(toolchain, chosen.compiler)
        better = bench.shed.place(good, chosen.compiler) if good else None
        reduced = reduce_case(bench, ReductionRequest(chosen, bad, better, MATCHES[match], repeats, resume, metric, slipped))
        found = reduced if isinstance(reduced, NotReproducible) else reproducer_of(bench, reduced, bad)
        folder = None if isinstance(found, NotReproducible) else write_reproducer(found, out)
        met = []
        for one, kept in () if isinstance(reduced, NotReproducible) else reduced.met:
            met.append(write_reproducer(reproducer_of(bench, one, bad), kept.parent))
            kept.unlink(missing_ok=True)  # the folder has it
    if output is Format.JSON:
        show_json(reduction_json(found, folder, met))
    else:
        show(reduction_blocks(found, folder, met))
    if isinstance(found, NotReproducible):
        return Exit.ENVIRONMENT if found.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN) else Exit.INCONCLUSIVE
    return Exit.OK
