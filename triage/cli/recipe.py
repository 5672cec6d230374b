"""`triage recipe`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from triage.cli.context import load_cases
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption, RecipePaths
from triage.cli.screen import Format, print_stderr, show, show_json
from triage.compilers.iree import read_pasted
from triage.model.case import Target
from triage.model.errors import BadFiles, BadInput
from triage.recipes import KernelGuess, guess_kernel, is_alone, kernel_alone, new_recipe, recipe_schema
from triage.toolchains.home import disk_errors

app = typer.Typer(no_args_is_help=True, help="Recipe files: write, check, list.")


@app.command()
@command
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
@command
def schema(output: FormatOption = Format.JSON) -> Exit:
    """The JSON Schema of recipe files, for editors."""
    del output  # a schema is JSON in any case
    show_json(recipe_schema())
    return Exit.OK


@app.command("list")
@command
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
@command
def new(
    path: Annotated[Path, typer.Argument(metavar="RECIPE", help="The YAML file to write.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --, a line of iree-compile to read input, target and flags from."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="The model: .mlir, .mlirbc, .onnx or a .py generator; or a file with a kernel."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="llvm-cpu, rocm, cuda, vulkan-spirv, ...; cuda or hip for a kernel. Without it the first."),
    ] = None,
    chip: Annotated[str | None, typer.Option(help="gfx942, sm_86, ...")] = None,
    kernel: Annotated[str | None, typer.Option(help="Which @triton.jit function of a file that has several.")] = None,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Write a commented recipe to start from.

    - `triage recipe new mine.yaml --input model.mlir --backend rocm --chip gfx942`

    - `triage recipe new mine.yaml -- iree-compile model.mlir --iree-hal-target-device=hip --iree-hip-target=gfx942 -o out.vmfb`
      reads what an issue or a build log has; versions that spell the target otherwise are told in their own words

    - `triage recipe new mine.yaml --input kernel.py` is for Triton where the file has a kernel: types are guessed from how it
      uses its arguments, and a kernel that imports from its own package is copied beside the recipe with what it uses
    """
    if path.exists():
        raise BadInput(f"{path} is there already; nothing was changed")
    start = _start(path, command, source, backend, chip, kernel)
    target = start.target
    text = new_recipe(
        path.stem,
        os.path.relpath(start.input.absolute(), path.absolute().parent),
        target.backend,
        target.chip,
        devices=target.devices,
        flags=start.flags,
        phase=start.phase,
        kernel=start.kernel,
    )
    with disk_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if start.copied is not None:
            start.input.write_text(start.copied, "utf-8")
        path.write_text(text, "utf-8")
    if output is Format.JSON:
        show_json({"recipe": str(path), "input": str(start.input), "left_out": list(start.left_out)})
    else:
        typer.echo(str(path))
    if start.copied is not None:
        print_stderr(f"the kernel was copied into {start.input}, with what it uses of its package")
    if start.left_out:
        print_stderr(f"left out, as it changes nothing that is compiled: {' '.join(start.left_out)}")
    print_stderr(f"next: triage run {path}{' -t triton:latest' if start.kernel else ''}")
    return Exit.OK


@dataclass(frozen=True, slots=True)
class _Start:
    """What a recipe is begun with. copied: the text of `input`, where that is to be written."""

    input: Path
    target: Target
    flags: Sequence[str] = ()
    phase: str | None = None
    left_out: Sequence[str] = ()
    kernel: KernelGuess | None = None
    copied: str | None = None


def _start(
    path: Path, command: list[str] | None, source: Path | None, backend: str | None, chip: str | None, kernel: str | None
) -> _Start:
    if command and source is None and kernel is None:
        pasted = read_pasted(command, backend)
        target = replace(pasted.target, chip=chip or pasted.target.chip)
        return _Start(_there(Path(pasted.input)), target, pasted.flags, pasted.phase, pasted.left_out)
    if command or source is None:
        raise BadInput("name the model, or the file of the --kernel, with --input, or give the line that compiles it after --")
    text = _there(source).read_text("utf-8", "replace") if source.suffix == ".py" else ""
    guess = guess_kernel(text, kernel)
    if guess is None:
        if kernel is not None:
            raise BadInput(f"{source} has no @triton.jit function")
        return _Start(_there(source), Target(backend or "llvm-cpu", chip))
    target = Target(backend or "cuda", chip or ("gfx942" if backend == "hip" else "sm_90"))
    if is_alone(source, text):
        return _Start(source, target, kernel=guess)
    beside = path.with_suffix(".py")
    if beside.exists():
        raise BadInput(f"{beside} is there already, where a copy of the kernel would go; nothing was changed")
    alone = kernel_alone(source, text, guess.name)
    whole = guess_kernel(alone, guess.name)
    assert whole is not None
    return _Start(beside, target, kernel=replace(guess, several=whole.several, signature=whole.signature), copied=alone)


def _there(source: Path) -> Path:
    if not source.is_file():
        raise BadInput(f"there is no input {source}")
    return source
