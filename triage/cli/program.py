"""A recipe made from a program, a command line or a pasted text: by `triage recipe
new`, or in the place of a recipe.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from triage.classify.log import decoded
from triage.cli.cases import ProgramTarget, named_family
from triage.cli.screen import AppContext, print_stderr
from triage.compilers.pasted_text import RecipeRequest
from triage.compilers.recipe_start import (
    NoProgramError,
    start_from_command,
    start_from_file,
    start_from_text,
)
from triage.compilers.registry import recipe_families
from triage.model.errors import BadFiles, BadInput
from triage.model.revision import FamilyRef
from triage.processes.sealing import is_sealing
from triage.recipes.loader import load_recipes
from triage.recipes.recipe import RecipeStart, new_recipe
from triage.recipes.values import name_from, why_unreadable
from triage.toolchains.home import KeptKind, default_home, disk_errors

TEXTS = (".md", ".txt", ".log", ".html")


@dataclass(frozen=True)
class StartedRecipe:
    """A recipe in the making, not yet written."""

    path: Path
    start: RecipeStart
    text: str = ""
    """The text that was pasted."""

    @property
    def is_pasted(self) -> bool:
        """Whether the program was copied from a text."""
        return self.start.copied is not None

    @property
    def assumed(self) -> tuple[str, ...]:
        """The target and the parameters of a kernel that nobody named."""
        guessed = (
            f"{name}: {value}"
            for values in self.start.keys.values()
            if isinstance(values, Mapping)
            for name, value in values.items()
            if name in self.start.guessed
        )
        return (*self.start.assumed, *guessed)

    def write(self, *, overwrite: bool = False) -> None:
        """Write the recipe, and its program where that was copied. Raises BadInput for
        files that exist, unless `overwrite` is set, and BadFiles for a recipe that
        nothing loads, of which no file is left.
        """
        path, start = self.path, self.start
        source = os.path.relpath(start.input.absolute(), path.absolute().parent)
        texts = {path: new_recipe(path.stem, source, start)}
        if start.copied is not None:
            texts[start.input] = start.copied
        for written in texts:
            if written.exists() and not overwrite:
                raise BadInput(f"{written} exists; nothing was changed")
        with disk_errors(f"write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            for written, text in texts.items():
                written.write_text(text, encoding="utf-8")
        try:
            load_recipes([path], recipe_families())
        except BadFiles:
            for written in texts:
                written.unlink()
            raise


class CodeNotAllowed(NoProgramError):
    """The program of a text is Python, which runs when it is compiled, and nobody
    allowed that.
    """


def allow_code(app: AppContext, program: str | None, path: Path) -> None:
    """Ask on a terminal whether to run the Python of a text where it cannot be sealed,
    unless --run-code says so. Raises CodeNotAllowed if not.
    """
    if is_sealing() or app.run_code:
        return
    if str(path) != "-" and sys.stdin.isatty() and sys.stderr.isatty():
        print_stderr(f"{program}\nThe Python above stands in {path}.")
        if typer.confirm("Run it?", default=False, err=True):
            return
    raise CodeNotAllowed(
        f"the program in {path} is Python, which runs when it is compiled; read it, "
        "then pass --run-code"
    )


def read_pasted(source: Path) -> str:
    """Return a pasted text; `-` is stdin."""
    try:
        if str(source) == "-":
            return decoded(sys.stdin.buffer.read())
        return decoded(source.read_bytes())
    except OSError as error:
        raise BadInput(f"{source} cannot be read: {error.strerror}") from error


def start_recipe(
    app: AppContext,
    wanted: RecipeRequest,
    command: Sequence[str] = (),
    text: Path | None = None,
    content: str = "",
) -> StartedRecipe:
    """Start a recipe from a text, from a command line, or else from a program.

    Raises:
        CodeNotAllowed: The text has Python, which may not run.
        BadInput: Nothing can be compiled, or no release knows the chip.
    """
    if text:
        with app.progress() as progress, progress.task(f"read {text}"):
            start = start_from_text(replace(wanted, text=content), str(text))
    elif command:
        start = start_from_command(wanted, command)
    elif wanted.source:
        start = start_from_file(wanted, wanted.source)
    else:
        raise BadInput("name a program with --input, or a command line after --")
    if start.target and wanted.chip:
        start = replace(start, target=replace(start.target, chip=wanted.chip))
    return StartedRecipe(wanted.path, start, content)


def split_kernel(word: str) -> tuple[str, str | None]:
    """Return the file and the kernel of FILE.py:KERNEL, or of another file without a
    kernel.
    """
    match = re.fullmatch(r"(.*\.py):(\w+)", word, re.DOTALL)
    return (match[1], match[2]) if match else (word, None)


def recipe_for(
    word: str, options: ProgramTarget, revs: Sequence[str | None] = ()
) -> StartedRecipe:
    """Write a recipe into the home for what stands in the place of one: a program,
    FILE.py:KERNEL, a text such as a pasted issue, - for stdin, or a command line in one
    word. `revs` may name the package that a script is about.
    """
    name, kernel = split_kernel(word)
    file = Path(name)
    source: Path | None = None
    text: Path | None = None
    command: list[str] = []
    content = ""
    if " " in word and not os.path.exists(word):  # noqa: PTH110 - too long for a path
        command = shlex.split(word)
        # the first file that it names, or else its tool
        words = [word for word in command[1:] if not word.startswith("-")]
        files = [path for path in map(Path, words) if path.suffix]
        file = [*files, Path(command[0])][0]
    elif name == "-" or file.suffix in TEXTS:
        text, content = file, read_pasted(file)
    else:
        source = file
        _check_program(file)
    packages = FamilyRef.parse(named_family(*revs) or "").packages
    place = os.path.abspath(file)  # noqa: PTH100 - it need not exist
    asked = (place, kernel, *command, content, options.backend, options.chip, *packages)
    key = hashlib.sha256("\0".join(map(str, asked)).encode()).hexdigest()[:12]
    title = name_from("stdin" if name == "-" else file.stem) or "program"
    path = default_home().folder(KeptKind.PROGRAMS) / key / f"{title}.yaml"
    wanted = RecipeRequest(
        path, source, options.backend, options.chip, kernel, packages
    )
    try:
        started = start_recipe(options.app, wanted, command, text, content)
        if text and started.start.input.suffix == ".py":
            allow_code(options.app, started.start.copied, text)
    except NoProgramError as error:
        error.text = content
        raise
    started.write(overwrite=True)
    for note in started.start.notes:
        print_stderr(note)
    print_stderr(f"recipe: {path}")
    return started


def program_suffixes() -> list[str]:
    """Return how the names of programs end."""
    families = recipe_families().values()
    return sorted({suffix for family in families for suffix in family.inputs})


def _check_program(file: Path) -> None:
    """Refuse a file that is missing, or that nothing here compiles."""
    if not file.exists():
        raise BadInput(f"{file}: {why_unreadable(file, FileNotFoundError())}")
    suffixes = program_suffixes()
    if file.suffix not in suffixes:
        raise BadInput(
            f"{file} is not a recipe (.yaml), a program ({', '.join(suffixes)}) or a "
            f"text ({', '.join(TEXTS)})"
        )
