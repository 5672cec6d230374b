"""`triage lint`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.screen import print_stderr, show, show_json
from triage.compilers.registry import family_of
from triage.lint.workflow import lint as look
from triage.model.case import Case, Flag, Input, InputKind, Target
from triage.model.errors import BadInput
from triage.recipes.words import IREE

_RECIPES = (".yaml", ".yml")


class LintFormat(StrEnum):
    """How the findings are written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


@command
def lint(
    context: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT|RECIPE...", help="Programs (.mlir, .mlirbc, .onnx, a generator), recipes, folders of recipes."
        ),
    ],
    toolchain: Annotated[
        str | None,
        typer.Option(
            "--toolchain",
            "-t",
            metavar="REV",
            help="Read with its tools, spell its flags, and measure with it. Default: installed.",
        ),
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option("--flag", help="A flag the program is compiled with, beside the recipe's; may be repeated."),
    ] = None,
    measure: Annotated[
        bool | None,
        typer.Option(
            "--measure/--no-measure",
            help="Compile up to the analysis of devices. Default: where --toolchain is given.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        LintFormat, typer.Option("--format", "-f", help="How the answer is written to stdout.")
    ] = LintFormat.TEXT,
) -> Exit:
    """Find what is wrong with a program before it is compiled: devices, affinities, chains, shapes, types.

    Exit 1 when there is an error. `// triage: ignore` or `// triage: ignore[rule]`, on a line of the program or alone on the
    line above, silences what is found there.

    - `triage lint model.mlir --flag=--iree-hal-target-device=hip[0]`

    - `triage lint recipes/sharded-for-loops.yaml -t 3.8.0`
    """
    from triage.report.lint import lint_blocks, lint_json
    from triage.report.sarif import lint_sarif

    flags = tuple(Flag(_checked(text)) for text in flag or ())
    chosen = list(_cases(paths, flags))
    wanted = measure if measure is not None else toolchain is not None
    with open_runner(context.obj, [case for case, _ in chosen]) as bench:
        ready = bench.shed.obtain(bench.shed.place(toolchain or "installed", IREE.name))
        answers, unreadable = [], []
        for case, shown in chosen:
            try:
                answers.append(look(bench, case, ready, measured=wanted, shown=shown))
            except BadInput as error:  # told at the end, behind what was found in the others
                unreadable.append(error)
    if unreadable and not answers:
        raise BadInput("\n".join(map(str, unreadable)))
    match output:
        case LintFormat.JSON:
            show_json(lint_json(answers))
        case LintFormat.SARIF:
            show_json(lint_sarif(answers))
        case LintFormat.TEXT:
            show(lint_blocks(answers))
    if unreadable:
        raise BadInput("\n".join(map(str, unreadable)))
    return Exit.FOUND if any(answer.wrong for answer in answers) else Exit.OK


def _cases(paths: Sequence[Path], flags: tuple[Flag, ...]) -> Iterator[tuple[Case, Path | None]]:
    """Each case with the path its places are told in. BadInput when nothing is left to look at."""
    from dataclasses import replace

    programs = [path for path in paths if not path.is_dir() and path.suffix not in _RECIPES]
    recipes = [path for path in paths if path not in programs]
    found = load_cases(recipes) if recipes else ()
    able = [case for case in found if family_of(case).placement() is not None]
    if len(able) < len(found):
        print_stderr(f"{len(found) - len(able)} of {len(found)} cases are no MLIR programs, and are left out")
    if not able and not programs:
        raise BadInput("none of the cases is an MLIR program; there is nothing to look at")
    for case in able:
        yield replace(case, flags=(*case.flags, *flags)), _shown(case.input.path)
    for path in programs:
        yield _case(path, flags), path


def _case(path: Path, flags: tuple[Flag, ...]) -> Case:
    """A program that no recipe speaks of: its flags are all that is known."""
    kind = IREE.kind_of(path.suffix)
    if kind is None or kind is InputKind.OTHER:
        raise BadInput(f"{path}: a program ends in {', '.join(IREE.inputs)}; a recipe in {' or '.join(_RECIPES)}")
    if not path.is_file():
        raise BadInput(f"{path}: is no file")
    return Case(path.stem, str(path), "", IREE.name, path, Input(path.absolute(), kind), Target(""), flags)


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _checked(text: str) -> str:
    if not text.startswith("-"):
        raise BadInput(f"--flag {text!r} is no flag: write it as the compiler takes it, `--flag=--iree-opt-level=O3`")
    return text
