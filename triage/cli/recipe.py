"""`triage recipe`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from triage.cli.bench import load_cases
from triage.cli.endings import Exit, guarded
from triage.cli.options import FormatOption, RecipePaths
from triage.cli.screen import Format, show, show_json, tell
from triage.compilers.iree import read_pasted
from triage.model.case import Target
from triage.model.errors import BadFiles, BadInput
from triage.recipes import new_recipe, recipe_schema
from triage.toolchains.home import disk_errors

app = typer.Typer(no_args_is_help=True, help="Recipe files: write, check, list.")


@app.command()
@guarded
def validate(paths: RecipePaths, output: FormatOption = Format.TEXT) -> Exit:
    """Check recipes without running anything: every mistake with file:line:column and what to write instead."""
    try:
        cases = load_cases(paths)
    except BadFiles as error:
        if output is Format.JSON:
            found = [{"path": p.path, "line": p.line, "column": p.column, "message": p.message} for p in error.problems]
            show_json({"cases": 0, "problems": found})
            return Exit.USAGE
        raise
    if output is Format.JSON:
        show_json({"cases": len(cases), "problems": []})
    else:
        typer.echo(f"{len({case.source for case in cases})} recipes, {len(cases)} cases, no problems")
    return Exit.OK


@app.command()
@guarded
def schema(output: FormatOption = Format.JSON) -> Exit:
    """The JSON Schema of recipe files, for editors."""
    del output  # a schema is JSON in any case
    show_json(recipe_schema())
    return Exit.OK


@app.command("list")
@guarded
def list_(paths: RecipePaths, output: FormatOption = Format.TEXT) -> Exit:
    """The cases that recipes make."""
    cases = load_cases(paths)
    if output is Format.JSON:
        rows = [
            {
                "recipe": c.recipe,
                "case": c.name,
                "summary": c.summary,
                "backend": c.target.backend,
                "chip": c.target.chip,
                "phase": c.phase,
            }
            for c in cases
        ]
        show_json({"cases": rows})
        return Exit.OK
    table = Table("case", "target", "summary", box=None)
    for case in cases:
        target = ":".join(part for part in (case.target.backend, case.target.chip) if part)
        table.add_row(case.name, target + (f" x{case.target.devices}" if case.target.devices else ""), case.summary)
    show([table])
    return Exit.OK


@app.command()
@guarded
def new(
    path: Annotated[Path, typer.Argument(metavar="RECIPE", help="The YAML file to write.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --, a line of iree-compile to read input, target and flags from."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--input", "-i", help="The model: .mlir, .mlirbc, .onnx or a .py generator.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="What to compile for: llvm-cpu, rocm, cuda, vulkan-spirv, ... Without it: llvm-cpu.")
    ] = None,
    chip: Annotated[str | None, typer.Option(help="gfx942, sm_86, ...")] = None,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Write a commented recipe to start from.

    - `triage recipe new mine.yaml --input model.mlir --backend rocm --chip gfx942`

    - `triage recipe new mine.yaml -- iree-compile model.mlir --iree-hal-target-device=hip --iree-hip-target=gfx942 -o out.vmfb`
      reads what an issue or a build log has; versions that spell the target otherwise are told in their own words
    """
    if path.exists():
        raise BadInput(f"{path} is there already; nothing was changed")
    if (source is None) == (not command):
        raise BadInput("name the model with --input, or give the command line that compiles it after --")
    if command:
        pasted = read_pasted(command, backend)
        source, target = Path(pasted.input), pasted.target
        flags, phase, left_out = pasted.flags, pasted.phase, pasted.left_out
    else:
        target, flags, phase, left_out = Target(backend or "llvm-cpu"), (), None, ()
    if source is None or not source.is_file():
        raise BadInput(f"there is no input {source}")
    beside = os.path.relpath(source.absolute(), path.absolute().parent)
    text = new_recipe(path.stem, beside, target.backend, chip or target.chip, devices=target.devices, flags=flags, phase=phase)
    with disk_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    if output is Format.JSON:
        show_json({"recipe": str(path), "left_out": list(left_out)})
    else:
        typer.echo(str(path))
    if left_out:
        tell(f"left out, as it changes nothing that is compiled: {' '.join(left_out)}")
    tell(f"next: triage run {path}")
    return Exit.OK
