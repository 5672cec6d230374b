"""`triage remedy`, `triage variants` and `triage lint`: what to change in a case or a
program.
"""

from __future__ import annotations

from pathlib import Path

import typer

from triage.cli.cases import (
    OneCase,
    ProgramTarget,
    cases_named,
    one_case,
    open_engine_for,
)
from triage.cli.command import (
    CASES,
    FAILING_TOOLCHAIN,
    Reply,
    Unfinished,
    argument,
    command,
    flag,
    option,
    report,
    toolchain_option,
)
from triage.cli.program import TEXTS
from triage.lint.check import LintResult, cases_to_lint, lint_case
from triage.model.errors import BadInput
from triage.report.tables import lint_document


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
    from triage.remedy.candidates import RemedyRequest
    from triage.remedy.search import find_remedies
    from triage.report.searches import remedy_document

    cases = chosen.cases([chosen.recipe])
    case = one_case(cases, chosen.case)
    with open_engine_for(chosen.app, cases) as engine:
        bad = engine.registry.resolve(toolchain, case.compiler)
        reference = engine.registry.resolve(good, case.compiler) if good else None
        request = RemedyRequest(case, bad, reference, siblings=cases)
        remedies = find_remedies(engine, request)
    return report(remedies, remedy_document)


@command
def variants(
    chosen: OneCase,
    toolchain: str = toolchain_option("Compile with this toolchain.", "installed"),
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
    if target.backend or target.chip or any(path.suffix in TEXTS for path in paths):
        paths = target.recipes(paths)
    cases = cases_named(cases_to_lint(paths), case)
    linted, unreadable = [], []
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
    raise Unfinished(reply, problem) if linted else problem
