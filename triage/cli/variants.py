"""`triage variants`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import JobsOption, RecipePath, SuiteOption, format_option, rev_option
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.remedy.variants import compare_variants, neighbourhood, varied
from triage.report.formats import write_report
from triage.report.variants import variants_document


@command
def variants(
    context: typer.Context,
    recipe: RecipePath,
    suite_config: SuiteOption = None,
    toolchain: Annotated[str, rev_option("--toolchain", "-t", text="REV to compile with.")] = "installed",
    case: Annotated[
        str | None, typer.Option(help="Failing case: `name[key=value]` or `key=value` (default: the first that fails).")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V,V",
            help="Vary a generator argument, the target, or a kernel option. May be repeated (default: the recipe's matrix).",
        ),
    ] = None,
    jobs: JobsOption = None,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Compile variants of a failing case and report which keys decide whether it fails.

    Exit 3 if no variant fails.

    - `triage variants recipes/triton-delta-rule.yaml -t 3.2.0`

    - `triage variants recipes/dequantized-conv.yaml -t 3.2.0 --vary chip=gfx942,gfx1100`
    """
    cases = load_cases([recipe], suite_config)
    about = one_case(cases, case) if case else None
    if vary:
        about = about or one_case(cases, None)
        chosen: Sequence[Case] = varied(about, _axes(vary))
        about = chosen[0] if case else None  # the case's own values come first
    elif len(cases) == 1:
        raise BadInput(f"{recipe} has no matrix; name a key to vary, such as --vary chip=A,B")
    else:
        chosen = neighbourhood(about or cases[0], cases)
    with open_runner(context.obj, chosen, jobs) as runner:
        ref = runner.registry.resolve(toolchain, chosen[0].compiler)
        found = compare_variants(runner, chosen, ref, about)
    write_report(output, found, variants_document)
    if found.failure is not None:
        return Exit.OK
    return exit_without_answer(variant.cause for variant in found.results if variant.cause)


def _axes(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    axes = {}
    for word in words:
        key, _, values = word.partition("=")
        chosen = tuple(value.strip() for value in values.split(",") if value.strip())
        if not key or not chosen:
            raise BadInput(f"--vary {word}: expected KEY=VALUE,VALUE")
        axes[key.strip()] = chosen
    return axes
