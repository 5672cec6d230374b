"""`triage recipe`."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from triage.cli.context import load_cases
from triage.cli.exit_codes import Exit, command
from triage.cli.options import RecipePaths, format_option
from triage.cli.screen import print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, Families, recipe_families
from triage.model.errors import BadFiles, BadInput
from triage.recipes.family import RecipeStart
from triage.recipes.schema import recipe_schema
from triage.recipes.starter import new_recipe
from triage.report.elements import plural
from triage.report.housekeeping import (
    CaseListShape,
    HousekeepingReport,
    ListedCaseShape,
    NewRecipeShape,
    ProblemShape,
    ValidationShape,
)
from triage.report.registry import write_report
from triage.toolchains.home import disk_errors

app = typer.Typer(no_args_is_help=True, help="Write, validate and list recipes.")


@app.command()
@command
def validate(paths: RecipePaths, output: Annotated[str, format_option(HousekeepingReport)] = "text") -> Exit:
    """Check recipes without running anything. Print every mistake with file:line:column and what to write instead."""
    try:
        cases = load_cases(paths)
    except BadFiles as error:
        if output != "json":
            raise
        problems = [ProblemShape(problem.path, problem.line, problem.column, problem.message) for problem in error.problems]
        write_report(HousekeepingReport(ValidationShape(0, problems), ()), output)
        return Exit.USAGE
    recipes = plural(len({case.source for case in cases}), "recipe")
    text = Text(f"{recipes}, {plural(len(cases), 'case')}, no problems")
    write_report(HousekeepingReport(ValidationShape(len(cases), []), [text]), output)
    return Exit.OK


@app.command()
@command
def schema(output: Annotated[str, format_option(HousekeepingReport, ("json",))] = "json") -> Exit:  # noqa: ARG001 - only JSON
    """Print the JSON Schema of recipe files, for editors."""
    typer.echo(json.dumps(recipe_schema(recipe_families()), indent=2))
    return Exit.OK


@app.command("list")
@command
def list_(paths: RecipePaths, output: Annotated[str, format_option(HousekeepingReport)] = "text") -> Exit:
    """List the cases of recipes."""
    cases = load_cases(paths)
    table = Table("case", "target", "summary", box=None)
    for case in cases:
        target = ":".join(part for part in (case.target.backend, case.target.chip) if part)
        table.add_row(case.name, target + (f" x{case.target.devices}" if case.target.devices else ""), case.summary)
    shapes = [
        ListedCaseShape(case.recipe, case.name, case.summary, case.target.backend, case.target.chip, case.phase)
        for case in cases
    ]
    write_report(HousekeepingReport(CaseListShape(shapes), [table]), output)
    return Exit.OK


@app.command()
@command
def new(
    path: Annotated[Path, typer.Argument(metavar="RECIPE", help="The YAML file to write.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --: an iree-compile command line to take input, target and flags from."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="Model (.mlir, .mlirbc, .onnx, a .py generator) or a file with a Triton kernel."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="llvm-cpu, rocm, cuda, vulkan-spirv, ...; cuda or hip for a kernel (default: llvm-cpu, cuda for a kernel)."
        ),
    ] = None,
    chip: Annotated[str | None, typer.Option(help="Target chip, such as gfx942 or sm_86.")] = None,
    kernel: Annotated[str | None, typer.Option(help="@triton.jit function to use, of a file with several.")] = None,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Write a commented recipe to start from.

    - `triage recipe new mine.yaml --input model.mlir --backend rocm --chip gfx942`

    - `triage recipe new mine.yaml -- iree-compile model.mlir --iree-hal-target-device=hip --iree-hip-target=gfx942 -o out.vmfb`
      reads a command line from an issue or a build log; the target is stored in a form that every version understands

    - `triage recipe new mine.yaml --input kernel.py` writes a Triton recipe and guesses argument types from their use. A
      kernel that imports from its own package is copied beside the recipe, with the functions that it uses
    """
    if path.exists():
        raise BadInput(f"{path} exists; nothing was changed")
    start = _start(path, command, source, backend, chip, kernel)
    input_path = os.path.relpath(start.input.absolute(), path.absolute().parent)
    text = new_recipe(recipe_families(), path.stem, input_path, start)
    with disk_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if start.copied is not None:
            start.input.write_text(start.copied, "utf-8")
        path.write_text(text, "utf-8")
    values = NewRecipeShape(str(path), str(start.input), list(start.left_out))
    write_report(HousekeepingReport(values, [Text(str(path))]), output)
    if start.copied is not None:
        print_stderr(f"the kernel and the functions that it uses were copied into {start.input}")
    if start.left_out:
        print_stderr(f"left out, because they do not affect the compiled code: {' '.join(start.left_out)}")
    print_stderr(f"next: triage run {path}{'' if start.family == DEFAULT_FAMILY else f' -t {start.family}:latest'}")
    return Exit.OK


def _start(
    recipe: Path, command: list[str] | None, source: Path | None, backend: str | None, chip: str | None, kernel: str | None
) -> RecipeStart:
    """What the new recipe contains: read from a command line or a source file by the first family that understands it."""
    families = Families()
    if command and source is None and kernel is None:
        start = next(filter(None, (family.start_from_command(command, backend) for family in families.values())), None)
        if start is None:
            raise BadInput(f"no compiler family reads command lines of {command[0]}; name the model with --input")
        _check_file(start.input)
        return replace(start, target=replace(start.target, chip=chip or start.target.chip))
    if command or source is None:
        raise BadInput("name the model or the kernel's file with --input, or write the command line that compiles it after --")
    _check_file(source)
    # The default family accepts any input, so that it comes last.
    by_priority = sorted(families.values(), key=lambda family: family.name == DEFAULT_FAMILY)
    starts = (family.start_from_source(recipe, source, backend, chip, kernel) for family in by_priority)
    start = next(filter(None, starts), None)
    if start is None:
        raise BadInput(f"{source} has no kernel; --kernel names one in a Python file")
    return start


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise BadInput(f"there is no input {path}")
