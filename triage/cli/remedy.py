"""`triage remedy`, `variants`, `lint`, `reduce` and `replay`: what to change in a case
or a program, and a smaller program that fails in the same way.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from os.path import exists
from pathlib import Path

import typer

from triage.cli.cases import (
    Compiling,
    OneCase,
    ProgramTarget,
    cases_named,
    one_case,
    open_engine_for,
    revs_by_family,
)
from triage.cli.command import (
    CASES,
    FAILING_TOOLCHAIN,
    SECONDS,
    SUITE,
    AppContext,
    Reply,
    argument,
    command,
    flag,
    option,
    report,
    toolchain_option,
)
from triage.cli.program import TEXTS
from triage.execution.engine import Engine
from triage.model.errors import BadInput
from triage.report.tables import lint_document, replay_document


@command
def remedy(
    chosen: OneCase,
    toolchain: str = FAILING_TOOLCHAIN,
    good: str | None = option(
        "REV",
        "Try flags that are newer than this known-good revision first, and "
        "check each remedy there.",
    ),
) -> Reply:
    """Find flags or input changes that make a failing case compile.

    Known remedies of the failure class are tried first, then options of the compiler
    that concern the failure, 100 candidates at most. The best remedies are reported,
    the best first, and checked on --good and on the newest release. Exit 3 if none is
    found and no newer release helps.

    - `triage remedy recipes/cuda-matmul-f32.yaml -t 3.3.0 --good 3.0.0`
    """
    from triage.remedy.candidates import Situation
    from triage.remedy.search import find_remedies
    from triage.report.searches import remedy_document

    cases = chosen.cases([chosen.recipe])
    case = one_case(cases, chosen.case)
    with open_engine_for(chosen.app, cases) as engine:
        bad = engine.registry.resolve(toolchain, case.compiler)
        reference = engine.registry.resolve(good, case.compiler) if good else None
        remedies = find_remedies(Situation(engine, case, bad, reference, cases))
    return report(remedies, remedy_document)


@command
def variants(
    chosen: OneCase,
    toolchain: str = toolchain_option(
        "Compile with this toolchain.", default="installed"
    ),
) -> Reply:
    """Compile variants of a failing case and report which keys decide whether it fails.

    Without --case, the case is the first one that fails. Exit 3 if no variant fails.

    - `triage variants recipes/triton-delta-rule.yaml -t 3.2.0`
    """
    from triage.remedy.variants import compare_variants
    from triage.report.searches import variants_document

    cases = chosen.cases([chosen.recipe])
    about = one_case(cases, chosen.case) if chosen.case else None
    if not any(case.matrix for case in cases):
        raise BadInput(f"{chosen.recipe} has no matrix")
    with open_engine_for(chosen.app, cases) as engine:
        ref = engine.registry.resolve(toolchain, cases[0].compiler)
        compared = compare_variants(engine, cases, ref, about)
    return report(compared, variants_document)


@command
def lint(
    target: ProgramTarget,
    paths: list[Path] = argument(
        "INPUT|RECIPE",
        "Programs (.mlir, .mlirbc, .onnx, a .py generator), pasted issues, "
        "recipes, or folders of recipes.",
    ),
    toolchain: str | None = toolchain_option(
        "Parse the program with this toolchain, and measure how many iterations "
        "its affinity solver needs (default: the installed one, and no measuring)."
    ),
    case: str | None = CASES,
    graph: bool = flag(
        "--graph",
        "Print devices and transfers as a Mermaid flowchart instead of the findings.",
    ),
) -> Reply:
    """Find mistakes in a program before compiling it: devices, affinities, chains.

    Exit 1 if there is an error.

    - `triage lint model.mlir`

    - `triage lint recipes/sharded-for-loops.yaml -t 3.8.0`
    """
    from triage.lint.check import LintResult, cases_to_lint, lint_case

    # a command line is not a file, and may be too long for a path
    others = [path for path in paths if path.suffix in TEXTS or not exists(path)]  # noqa: PTH110
    if target.backend or target.chip or others:
        paths = target.write_recipes(paths)
    cases = cases_named(cases_to_lint(paths), case)
    linted = []
    unreadable = []
    with open_engine_for(target.app, cases) as engine:
        for chosen in cases:
            try:
                linted.append(lint_case(engine, chosen, toolchain))
            except BadInput as error:  # reported after the findings of other cases
                unreadable.append(str(error))
    reply = report(LintResult(linted), lint_document)
    if graph:
        text = "".join(case.graph for case in linted)
        reply = Reply(lambda _: typer.echo(text, nl=False), reply.exit)
    if not unreadable:
        return reply
    problem = BadInput("\n".join(unreadable))
    if not linted:
        raise problem
    return replace(reply, error=problem)


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
    from triage.execution.number_judge import Metric, engine_with_judge
    from triage.reduce.reproducer import reproducer_of
    from triage.reduce.workflow import reduce_case
    from triage.report.reproducer import (
        folder_for,
        reduction_document,
        write_reproducer,
    )

    if metric and not good:
        raise BadInput("--metric needs --good: the toolchain with the better number")
    case = chosen.selected_case(suite_config, (toolchain, good))
    folder_for(out, case)
    with compiling.open(case) as engine:
        bad = engine.registry.resolve(toolchain, case.compiler)
        better = engine.registry.resolve(good, case.compiler) if good else None
        judging: AbstractContextManager[Engine] = nullcontext(engine)
        if metric and better:
            number = Metric.parse(metric)
            ends = (better, bad)
            judging = engine_with_judge(
                engine, case, ends, number, SECONDS, tries_programs=True
            )
        with judging as tester:
            reduction = reduce_case(tester, case, bad, better)
        reproducer = None
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
    from triage.reduce.reproducer import open_reproducers, replay
    from triage.reduce.result import Replays

    reproducers = open_reproducers(paths)
    cases = [reproducer.small for reproducer in reproducers]
    revs_of = revs_by_family(cases, toolchain) if toolchain else None
    with open_engine_for(app, cases) as engine:
        replays = replay(engine, reproducers, revs_of)
    return report(Replays(replays), replay_document)
