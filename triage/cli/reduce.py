"""`triage reduce` and `triage replay`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from triage.cli.cases import Compiling, OneCase, open_engine_for, revs_by_family
from triage.cli.command import (
    FAILING_TOOLCHAIN,
    SECONDS,
    SUITE,
    Reply,
    argument,
    command,
    option,
    report,
    toolchain_option,
)
from triage.cli.screen import AppContext
from triage.execution.number_judge import Metric, engine_with_judge
from triage.model.errors import BadInput
from triage.reduce.replay import Replays, open_reproducers
from triage.reduce.replay import replay as replay_all
from triage.reduce.reproducer import reproducer_of
from triage.reduce.workflow import reduce_case
from triage.report.reproducer import folder_for, reduction_document, write_reproducer
from triage.report.tables import replay_document


@command
def reduce_recipe(
    chosen: OneCase,
    compiling: Compiling,
    toolchain: str = FAILING_TOOLCHAIN,
    suite_config: list[Path] | None = SUITE,
    good: str | None = option(
        "REV",
        "Keep only programs that this toolchain compiles (default: any that fail).",
    ),
    out: Path = option(
        "DIR",
        "Write the reproducer into a new folder below this one.",
        default=Path("reproducers"),
    ),
    metric: str | None = option(
        "NAME[:FUNCTION]",
        "Reduce a program whose number grew since --good instead of a failure: "
        "cpu_seconds, run_seconds, artifact_bytes, or any that `triage run` "
        "reports. FUNCTION names the function to run.",
    ),
) -> Reply:
    """Reduce the program of a failing case to a minimal reproducer.

    Every candidate is compiled: it must show the same failure and, with --good, still
    compile there. The folder holds the program, a recipe, a shell script and a README
    for an issue.

    - `triage reduce recipes/cuda-matmul-f32.yaml -t 3.3.0 --good 3.0.0`
    """
    if metric and not good:
        raise BadInput("--metric needs --good: the toolchain with the better number")
    case = chosen.selected_case(suite_config, (toolchain, good))
    folder_for(out, case)
    with compiling.open(case) as engine, ExitStack() as opened:
        bad = engine.registry.resolve(toolchain, case.compiler)
        better = engine.registry.resolve(good, case.compiler) if good else None
        judging = engine
        if metric and better:
            number, refs = Metric.parse(metric), (better, bad)
            judging = opened.enter_context(
                engine_with_judge(
                    engine, case, refs, number, SECONDS, tries_programs=True
                )
            )
        reduction, reproducer = reduce_case(judging, case, bad, better), None
        opened.close()
        if reduction.unanswered is None:
            reproducer = reproducer_of(engine, reduction, bad)
            folder = write_reproducer(reproducer, out)
            reduction = replace(reproducer.reduction, reproducer=str(folder))
    document = partial(reduction_document, reproducer=reproducer)
    return report(reduction, document)


@command
def replay_reproducers(
    app: AppContext,
    paths: list[Path] = argument(
        "DIR", "Folders of reproducers, or of one reproducer."
    ),
    toolchain: list[str] | None = toolchain_option(
        "Compile with this toolchain; repeatable (default: the recorded one "
        "and latest)."
    ),
) -> Reply:
    """Compile reproducers again and report whether each still fails in the same way.

    The result is that of the last version: `reproduces`, `fixed` (it compiles),
    `changed` (it fails in another way) or `untestable`. Exit 1 when the recorded
    version no longer fails as recorded. With --toolchain, reproducers of a compiler
    that no REV names are left out.

    - `triage replay reproducers/ -t nightly:latest`
    """
    reproducers = open_reproducers(paths)
    cases = [reproducer.program for reproducer in reproducers]
    revs_of = revs_by_family(cases, toolchain) if toolchain else None
    with open_engine_for(app, cases) as engine:
        replays = replay_all(engine, reproducers, revs_of)
    return report(Replays(replays), replay_document)
