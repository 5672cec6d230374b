"""`triage recipe`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from triage.cli.context import load_cases
from triage.cli.exit_codes import Exit, command
from triage.cli.options import RecipePaths, format_option, rev_option
from triage.cli.recipe_trial import TriedStart, try_start
from triage.cli.screen import print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, Families, recipe_families
from triage.model.case import Target
from triage.model.errors import BadFiles, BadInput
from triage.recipes.family import PastedText, RecipeStart, TextExcerpt
from triage.recipes.schema import recipe_schema
from triage.recipes.starter import new_recipe
from triage.report.elements import plural
from triage.report.housekeeping import (
    CaseListShape,
    HousekeepingReport,
    ListedCaseShape,
    NewRecipeShape,
    ValidationShape,
)
from triage.report.registry import write_report
from triage.toolchains.home import disk_errors

_SHOWN = 160  # characters of a choice

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
        write_report(HousekeepingReport(ValidationShape(0, list(error.problems)), ()), output)
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
    context: typer.Context,
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
    toolchain: Annotated[
        list[str] | None,
        rev_option(
            "--toolchain",
            "-t",
            text="Also compile a kernel's new recipe on this toolchain; may be repeated (default: newest installed).",
        ),
    ] = None,
    try_: Annotated[
        bool, typer.Option("--try/--no-try", help="Compile a kernel's new recipe, and correct guessed values by the errors.")
    ] = True,
    from_text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the program and the command line from an issue or a gist; - is stdin."),
    ] = None,
    block: Annotated[int | None, typer.Option(min=1, help="Program to use, of several in the text.")] = None,
    line: Annotated[int | None, typer.Option(min=1, help="Command line to use, of several in the text.")] = None,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Write a commented recipe to start from.

    - `triage recipe new mine.yaml --input model.mlir --backend rocm --chip gfx942`

    - `triage recipe new mine.yaml -- iree-compile model.mlir --iree-hal-target-device=hip --iree-hip-target=gfx942 -o out.vmfb`
      reads a command line from an issue or a build log; the target is stored in a form that every version understands.
      --input names the program where the command line reads its standard input

    - `triage recipe new mine.yaml --from-text issue.md` takes both the program and the command line from an issue

    - `triage recipe new mine.yaml --input kernel.py` writes a Triton recipe and guesses argument types from their use. The
      guesses are compiled, corrected by the compiler's errors and marked. A kernel that imports from its own package is
      copied beside the recipe, with the functions that it uses
    """
    if path.exists():
        raise BadInput(f"{path} exists; nothing was changed")
    if from_text:
        start = _start_from_text(path, from_text, (block, line), source, backend)
    else:
        start = _start(path, command, source, backend, chip, kernel)
    if chip and start.target:
        start = replace(start, target=replace(start.target, chip=chip))
    tried = try_start(context, start, path.stem, toolchain or ()) if try_ and start.guessed else TriedStart(start)
    start = tried.start
    if start.copied is not None and start.input.exists():
        raise BadInput(f"{start.input} exists; nothing was changed")
    input_path = os.path.relpath(start.input.absolute(), path.absolute().parent)
    text = new_recipe(recipe_families(), path.stem, input_path, start)
    with disk_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if start.copied is not None:
            start.input.write_text(start.copied, "utf-8")
        with path.open("x", encoding="utf-8") as file:  # never over a file that was written meanwhile
            file.write(text)
    values = NewRecipeShape(str(path), str(start.input), list(start.left_out), list(start.notes), list(tried.results))
    write_report(HousekeepingReport(values, [Text(str(path))]), output)
    if start.copied is not None:
        print_stderr(f"the program was copied into {start.input}")
    if start.left_out:
        print_stderr(f"left out, because they do not affect the compiled code: {' '.join(start.left_out)}")
    results = (f"{each.toolchain}: {each.status}{f', {each.reason}' if each.reason else ''}" for each in tried.results)
    for note in (*start.notes, *results, *filter(None, [tried.note])):
        print_stderr(note)
    print_stderr(f"next: triage run {path}{'' if start.family == DEFAULT_FAMILY else f' -t {start.family}:latest'}")
    return Exit.OK


def _start(
    recipe: Path, command: list[str] | None, source: Path | None, backend: str | None, chip: str | None, kernel: str | None
) -> RecipeStart:
    """What the new recipe contains: read from a command line or a source file by the first family that understands it."""
    families = Families()
    if command and kernel is None:
        start = _from_command(recipe, command, backend, source)
        if start is None:
            raise BadInput(f"no compiler family reads command lines of {command[0]}; name the model with --input")
        return start
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


def _from_command(recipe: Path, words: list[str], backend: str | None, source: Path | None) -> RecipeStart | None:
    starts = (family.start_from_command(words, backend, source) for family in Families().values())
    start = next(filter(None, starts), None)
    if start is None or start.copied is not None:
        return start
    _check_file(start.input)
    if recipe_families()[start.family].kind_of(start.input.suffix) is None:  # a compiler reads a file of any name
        return replace(start, input=recipe.with_suffix(".mlir"), copied=start.input.read_text("utf-8", "replace"))
    return start


def _start_from_text(
    recipe: Path, source: Path, chosen: tuple[int | None, int | None], program: Path | None, backend: str | None
) -> RecipeStart:
    """What the new recipe contains: a program and a command line of a text."""
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"{source} cannot be read: {error.strerror}") from error
    pasted = next(
        (found for family in Families().values() if (found := family.read_text(text)).programs or found.commands), PastedText()
    )
    block = None if program else _choose("program", pasted.programs, chosen[0], "--block")
    if program is None and block is None:
        raise BadInput(f"{source} contains no program; name it with --input")
    file = program or recipe.with_suffix(".mlir")
    if program:
        _check_file(program)
    call = _choose("command line", pasted.commands, chosen[1], "--line")
    if call is None and backend is None:
        raise BadInput(f"{source} contains no command line of a compiler; name what to compile for with --backend")
    start = (
        _from_command_of_text(call.text, backend, file)
        if call
        else _start(recipe, None, file, backend, None, None)
        if program
        else RecipeStart(DEFAULT_FAMILY, file, Target(backend or ""))
    )
    runs = tuple(f"The text also runs: {line}" for line in pasted.runs)
    return replace(start, copied=block.text if block else None, notes=(*start.notes, *runs))


def _from_command_of_text(line: str, backend: str | None, file: Path) -> RecipeStart:
    start = next(filter(None, (family.start_from_command([line], backend, file) for family in Families().values())), None)
    assert start  # a family found the line
    return start


def _choose(noun: str, excerpts: Sequence[TextExcerpt], number: int | None, option: str) -> TextExcerpt | None:
    """The excerpt that is meant; None where there is none. Asks on a terminal.

    Raises:
        BadInput: There are several and nobody can be asked, or there is no such number.
    """
    if number is not None and number > len(excerpts):
        raise BadInput(f"there is no {noun} {number}: the text has {plural(len(excerpts), noun)}")
    if len(excerpts) < 2 or number is not None:
        return excerpts[(number or 1) - 1] if excerpts else None
    choices = "\n".join(
        f"  {index}  line {excerpt.line}: {' '.join(excerpt.text.split())[:_SHOWN]}"
        for index, excerpt in enumerate(excerpts, 1)
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(f"the text has {plural(len(excerpts), noun)}; choose one with {option} N:\n{choices}")
    print_stderr(choices)
    answer: int = typer.prompt(f"Which {noun}?", type=int, default=1, err=True)
    return _choose(noun, excerpts, max(1, answer), option)


def _check_file(path: Path) -> None:
    try:
        is_there = path.is_file()
    except OSError:  # its name is too long
        is_there = False
    if not is_there:
        raise BadInput(f"there is no input {path}")
