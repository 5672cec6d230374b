"""`triage recipe`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases
from triage.cli.exit_codes import Exit, command
from triage.cli.options import RecipePaths, format_option, rev_option
from triage.cli.recipe_start import TrialResult, Wish, start_from_command, start_from_file, start_from_text, try_start
from triage.cli.screen import print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, recipe_families
from triage.model.errors import BadFiles, BadInput
from triage.recipes.family import RecipeStart, new_recipe, with_questions
from triage.recipes.loader import check_recipe
from triage.recipes.recipe import recipe_schema
from triage.report.document import Paragraph, Table
from triage.report.elements import plural
from triage.report.formats import write_answer
from triage.toolchains.home import disk_errors

app = typer.Typer(no_args_is_help=True, help="Write, validate and list recipes.")


@app.command()
@command
def validate(paths: RecipePaths, output: Annotated[str, format_option()] = "text") -> Exit:
    """Check recipes without running anything. Print every mistake with file:line:column and what to write instead."""
    try:
        cases = load_cases(paths)
    except BadFiles as error:
        if output != "json":
            raise
        write_answer(output, {"cases": 0, "problems": error.problems}, ())
        return Exit.USAGE
    recipes = plural(len({case.source for case in cases}), "recipe")
    text = Paragraph(f"{recipes}, {plural(len(cases), 'case')}, no problems")
    write_answer(output, {"cases": len(cases), "problems": []}, [text])
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
    rows, listed = [], []
    for case in load_cases(paths):
        backend, chip, devices = case.target.backend, case.target.chip, case.target.devices
        target = f"{backend}:{chip}" if chip else backend
        rows.append((case.name, f"{target} x{devices}" if devices else target, case.summary))
        keys = {"recipe": case.recipe, "case": case.name, "summary": case.summary, "backend": backend, "chip": chip}
        listed.append({**keys, "phase": case.phase})
    write_answer(output, {"cases": listed}, [Table(["case", "target", "summary"], rows)], "Cases")
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
      copied next to the recipe, with the functions that it uses
    """
    if path.exists():
        raise BadInput(f"{path} exists; nothing was changed")
    wish = Wish(path, source, backend, chip, kernel)
    reported: list[str] = []
    if from_text:
        start, reported = start_from_text(wish, from_text, block, line)
    elif command and kernel is None:
        start = start_from_command(wish, command)
    elif source is None or command:
        raise BadInput("name the model or the kernel's file with --input, or write the command line that compiles it after --")
    else:
        start = start_from_file(wish, source)
    if chip and start.target:
        start = replace(start, target=replace(start.target, chip=chip))
    tried: list[TrialResult] = []
    if try_ and start.guessed:
        start, tried = try_start(context, start, path.stem, toolchain or ())
    if start.copied is not None and start.input.exists():
        raise BadInput(f"{start.input} exists; nothing was changed")
    input_path = os.path.relpath(start.input.absolute(), path.absolute().parent)
    text = new_recipe(recipe_families(), path.stem, input_path, start)
    check_recipe(recipe_families(), text)
    text = with_questions(text, start.unknown)
    with disk_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if start.copied is not None:
            start.input.write_text(start.copied, "utf-8")
        with path.open("x", encoding="utf-8") as file:  # never over a file that was written meanwhile
            file.write(text)
    answer = {
        "recipe": path,
        "input": start.input,
        "left_out": start.left_out,
        "notes": start.notes,
        "tried": tried,
        "reported_for": reported,
        "reported_failure": next(iter(start.expect), None),
    }
    write_answer(output, answer, [Paragraph(str(path))])
    for remark in _remarks(path, start, tried, reported):
        print_stderr(remark)
    return Exit.OK


def _remarks(path: Path, start: RecipeStart, tried: Sequence[TrialResult], reported: Sequence[str]) -> Iterator[str]:
    """What the user should know of a new recipe, and the next command."""
    if start.copied is not None:
        yield f"the program was copied into {start.input}"
    if start.left_out:
        yield f"left out, because they do not affect the compiled code: {' '.join(start.left_out)}"
    yield from start.notes
    for trial in tried:
        yield f"{trial.toolchain}: {trial.status}{f', {trial.reason}' if trial.reason else ''}"
    if start.unknown:
        names = ", ".join(start.unknown)
        yield f"not known: {names}; write what the kernel is launched with instead of each ? in {path}"
    newest = [] if start.family == DEFAULT_FAMILY else [f"{start.family}:latest"]
    revs = [start.toolchain] if start.toolchain else reported or newest
    yield " ".join([f"next: triage run {path}", *(f"-t {rev}" for rev in revs)])
