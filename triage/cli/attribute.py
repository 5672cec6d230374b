"""`triage attribute`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import CaseOption, JobsOption, RecipePath
from triage.cli.screen import show, show_json


class PageFormat(StrEnum):
    """How the answer is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@command
def attribute(
    context: typer.Context,
    recipe: RecipePath,
    good: Annotated[str, typer.Option(help="REV that compiles.")],
    bad: Annotated[str, typer.Option(help="REV that fails.")],
    case: CaseOption = None,
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="DIR", help="A clone of the compiler, to find the pass's source in.")
    ] = None,
    phases: Annotated[
        bool, typer.Option("--phases/--no-phases", help="Compare the program after each phase as well, two compiles for each.")
    ] = True,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for attribution.html.")] = None,
    jobs: JobsOption = None,
    output: Annotated[
        PageFormat, typer.Option("--format", "-f", help="How the answer is written to stdout.")
    ] = PageFormat.TEXT,
) -> Exit:
    """Find the first pass after which the IR of two compilers differs for good, where it fails.

    IR is compared by what it means: operations, types, nesting and the chosen tile sizes; not by names, order,
    attributes or the spelling of a version.

    - `triage attribute recipes/cuda-matmul-f32.yaml --good 3.0.0 --bad 3.1.0 --repo ~/iree --out out`
    """
    from triage.attribute.divergence import Depth
    from triage.attribute.divergence import attribute as compare
    from triage.attribute.result import ComparisonResult
    from triage.git_history import Repository
    from triage.report.attribution import attribution_blocks, attribution_json, attribution_page, write_attribution

    chosen = one_case(load_cases([recipe]), case)
    clone = Repository(repo) if repo else None
    with open_runner(context.obj, [chosen], jobs) as runner:
        older, newer = (runner.registry.place(text, chosen.compiler) for text in (good, bad))
        found = compare(runner, chosen, older, newer, clone, Depth(phases=phases))
    match output:
        case PageFormat.JSON:
            show_json(attribution_json(found))
        case PageFormat.HTML:
            typer.echo(attribution_page(found))
        case PageFormat.TEXT:
            show(attribution_blocks(found))
    if out:
        typer.echo(f"written: {write_attribution(found, out)}", err=output is not PageFormat.TEXT)
    if found.status is not ComparisonResult.INCONCLUSIVE:
        return Exit.OK
    return exit_without_answer([found.cause])
