"""`triage recipe`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases
from triage.cli.exit_codes import Exit, command
from triage.cli.options import RecipePaths, format_option, rev_option
from triage.cli.recipe_text import check_file, start_from_file, start_from_text
from triage.cli.recipe_trial import TrialResult, TriedStart, try_start
from triage.cli.screen import print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, recipe_families, recipe_starters
from triage.model.errors import BadFiles, BadInput, Problem
from triage.recipes.family import RecipeStart
from triage.recipes.recipe import recipe_schema
from triage.recipes.starter import new_recipe, with_questions
from triage.report.document import Paragraph, Table
from triage.report.elements import plural
from triage.report.formats import write_answer
from triage.toolchains.home import disk_errors

app = typer.Typer(no_args_is_help=True, help="Write, validate and list recipes.")


@dataclass(frozen=True)
class Validation:
    """What `triage recipe validate` found."""

    cases: int
    problems: list[Problem]


@dataclass(frozen=True)
class ListedCase:
    """A case of a recipe."""

    recipe: str
    case: str
    summary: str
    backend: str
    chip: str | None
    phase: str | None


@dataclass(frozen=True)
class CaseList:
    """The cases of recipes."""

    cases: list[ListedCase]


@dataclass(frozen=True)
class NewRecipe:
    """A recipe that was written."""

    recipe: str
    input: str
    left_out: list[str]
    """Arguments that do not affect the compiled code."""
    notes: list[str]
    """What a command line leaves open, or what a copied kernel lacks."""
    tried: list[TrialResult]
    reported_for: list[str] = field(default_factory=list)
    """Toolchains that the text names."""
    reported_failure: str | None = None


@app.command()
@command
def validate(paths: RecipePaths, output: Annotated[str, format_option()] = "text") -> Exit:
    """Check recipes without running anything. Print every mistake with file:line:column and what to write instead."""
    try:
        cases = load_cases(paths)
    except BadFiles as error:
        if output != "json":
            raise
        write_answer(output, Validation(0, list(error.problems)), ())
        return Exit.USAGE
    recipes = plural(len({case.source for case in cases}), "recipe")
    text = Paragraph(f"{recipes}, {plural(len(cases), 'case')}, no problems")
    write_answer(output, Validation(len(cases), []), [text])
    return Exit.OK


@app.command()
@command
def schema(output: Annotated[str, format_option(only=("json",))] = "json") -> Exit:  # noqa: ARG001 - only JSON
    """Print the JSON Schema of recipe files, for editors."""
    typer.echo(json.dumps(recipe_schema(recipe_families()), indent=2))
    return Exit.OK


@app.command("list")
@command
def list_(paths: RecipePaths, output: Annotated[str, format_option()] = "text") -> Exit:
    """List the cases of recipes."""
    cases = load_cases(paths)
    rows = []
    for case in cases:
        target = ":".join(part for part in (case.target.backend, case.target.chip) if part)
        rows.append((case.name, target + (f" x{case.target.devices}" if case.target.devices else ""), case.summary))
    listed = [
        ListedCase(case.recipe, case.name, case.summary, case.target.backend, case.target.chip, case.phase) for case in cases
    ]
    write_answer(output, CaseList(listed), [Table(["case", "target", "summary"], rows)], "Cases")
    return Exit.OK


@app.command()
@command
def new(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="RECIPE", help="The YAML file to write.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --: a compiler's command line to take input, target and flags from."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="Model (.mlir, .mlirbc, .onnx, a .py generator) or a file with a kernel."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="llvm-cpu, rocm, cuda, vulkan-spirv, ...; cuda or hip for a kernel (default: llvm-cpu, cuda for a kernel)."
        ),
    ] = None,
    chip: Annotated[str | None, typer.Option(help="Target chip, such as gfx942 or sm_86.")] = None,
    kernel: Annotated[str | None, typer.Option(help="Kernel to use, of a file with several.")] = None,
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
    output: Annotated[str, format_option()] = "text",
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
    reported: tuple[str, ...] = ()
    if from_text:
        read = start_from_text(path, from_text, (block, line), source, backend, chip, kernel)
        start, reported = read.start, read.toolchains
    elif command and kernel is None:
        start = _from_command(path, command, backend, source)
    elif source is None or command:
        raise BadInput("name the model or the kernel's file with --input, or write the command line that compiles it after --")
    else:
        start = start_from_file(path, source, backend, chip, kernel)
    if chip and start.target:
        start = replace(start, target=replace(start.target, chip=chip))
    tried = try_start(context, start, path.stem, toolchain or ()) if try_ and start.guessed else TriedStart(start)
    start = tried.start
    if start.copied is not None and start.input.exists():
        raise BadInput(f"{start.input} exists; nothing was changed")
    input_path = os.path.relpath(start.input.absolute(), path.absolute().parent)
    text = with_questions(new_recipe(recipe_families(), path.stem, input_path, start), start.unknown)
    with disk_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if start.copied is not None:
            start.input.write_text(start.copied, "utf-8")
        with path.open("x", encoding="utf-8") as file:  # never over a file that was written meanwhile
            file.write(text)
    values = NewRecipe(
        str(path), str(start.input), list(start.left_out), list(start.notes), list(tried.results), list(reported), *start.expect
    )
    write_answer(output, values, [Paragraph(str(path))])
    if start.copied is not None:
        print_stderr(f"the program was copied into {start.input}")
    if start.left_out:
        print_stderr(f"left out, because they do not affect the compiled code: {' '.join(start.left_out)}")
    results = (f"{each.toolchain}: {each.status}{f', {each.reason}' if each.reason else ''}" for each in tried.results)
    for note in (*start.notes, *results, *filter(None, [tried.note])):
        print_stderr(note)
    if start.unknown:
        print_stderr(
            f"not known: {', '.join(start.unknown)}; write what the kernel is launched with instead of each ? in {path}"
        )
    newest = [] if start.family == DEFAULT_FAMILY else [f"{start.family}:latest"]
    revs = [start.toolchain] if start.toolchain else list(reported) or newest
    print_stderr(" ".join([f"next: triage run {path}", *(f"-t {rev}" for rev in revs)]))
    return Exit.OK


def _from_command(recipe: Path, words: list[str], backend: str | None, source: Path | None) -> RecipeStart:
    start = next(filter(None, (starter.from_command(words, backend, source) for starter in recipe_starters().values())), None)
    if start is None:
        raise BadInput(f"no compiler family reads command lines of {words[0]}; name the model with --input")
    check_file(start.input)
    if recipe_families()[start.family].kind_of(start.input.suffix) is None:  # a compiler reads a file of any name
        return replace(start, input=recipe.with_suffix(".mlir"), copied=start.input.read_text("utf-8", "replace"))
    return start
