"""A recipe made from a program, a command line or a pasted text: by `triage recipe
new`, or in the place of a recipe.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from triage.classify.log import decoded
from triage.cli.screen import AppContext, print_stderr
from triage.compilers.recipe_start import NewRecipe, NoProgramError
from triage.compilers.registry import recipe_families
from triage.model.errors import BadInput
from triage.processes.sealing import is_sealing
from triage.recipes.family import RecipeStart, new_recipe
from triage.recipes.loader import check_recipe
from triage.recipes.values import name_from
from triage.toolchains.home import KeptKind, default_home, disk_errors

if TYPE_CHECKING:
    from triage.cli.options import ProgramOptions

TEXTS = (".md", ".txt", ".log", ".html")


@dataclass(frozen=True)
class StartedRecipe:
    """A recipe in the making, not yet written."""

    wanted: NewRecipe
    start: RecipeStart
    reported: Sequence[str] = ()
    """The revisions that a text reports about."""

    @property
    def path(self) -> Path:
        """The path of the recipe."""
        return self.wanted.path

    @property
    def is_pasted(self) -> bool:
        """Whether the program was copied from a text."""
        return self.start.copied is not None

    @property
    def assumed(self) -> tuple[str, ...]:
        """The target and the values that nobody named."""
        values = [f"{name}: {value}" for name, value in _guessed(self.start)]
        return (*self.start.assumed, *values)

    def with_chip(self) -> StartedRecipe:
        """Return the recipe for the chip that the user names. Raises BadInput for a
        chip that no release knows.
        """
        start = self.start
        if start.target and self.wanted.chip:
            start = replace(start, target=replace(start.target, chip=self.wanted.chip))
        is_named = self.wanted.chip or not self.is_pasted  # not by a text
        if start.target and is_named:
            recipe_families()[start.family].check_chip(start.target)
        return replace(self, start=start)

    @property
    def content(self) -> str:
        """The text of the recipe."""
        path = self.wanted.path.absolute()
        source = os.path.relpath(self.start.input.absolute(), path.parent)
        return new_recipe(path.stem, source, self.start)

    def write(self, *, over: bool = False) -> None:
        """Write the recipe, and its program where that was copied. Raises BadInput for
        files that exist, unless `over`.
        """
        path, start, content = self.wanted.path, self.start, self.content
        if not over:
            copied = [start.input] if self.is_pasted else []
            for own in (path, *copied):
                if own.exists():
                    raise BadInput(f"{own} exists; nothing was changed")
        check_recipe(recipe_families(), content)
        with disk_errors(f"write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if start.copied is not None:
                start.input.write_text(start.copied, "utf-8")
            # never over a file that was written meanwhile
            with path.open("w" if over else "x", encoding="utf-8") as file:
                file.write(content)


class CodeNotAllowed(NoProgramError):
    """The program of a text is Python, which runs when it is compiled, and nobody
    allowed that.
    """


def allow_code(started: StartedRecipe, text: Path, *, run_code: bool) -> None:
    """Ask on a terminal whether to run the Python of a text where it cannot be sealed,
    unless --run-code says so. Raises CodeNotAllowed if not.
    """
    program = started.start.copied
    if (
        is_sealing()
        or run_code
        or program is None
        or started.start.input.suffix != ".py"
    ):
        return
    if str(text) != "-" and sys.stdin.isatty() and sys.stderr.isatty():
        print_stderr(
            f"{program}\nThe Python above stands in {text}, and runs here when it is "
            "compiled."
        )
        if typer.confirm("Run it?", default=False, err=True):
            return
    raise CodeNotAllowed(
        f"the program in {text} is Python, which runs when it is compiled; read it, "
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


def from_text(
    app: AppContext,
    wanted: NewRecipe,
    text: str,
    source: Path,
) -> StartedRecipe:
    """Start from a pasted text, which `source` has."""
    with app.progress() as progress, progress.task(f"read {source}"):
        return StartedRecipe(wanted, *wanted.from_text(text, str(source)))


def split_kernel(word: str) -> tuple[str, str | None]:
    """Return the file and the kernel of FILE.py:KERNEL, or of another file without a
    kernel.
    """
    found = re.fullmatch(r"(.*\.py):(\w+)", word, re.DOTALL)
    return (found[1], found[2]) if found else (word, None)


def recipe_for(word: str, options: ProgramOptions) -> StartedRecipe:
    """Write a recipe for what stands in the place of one, where --save says or into the
    home.

    word: a program, FILE.py:KERNEL, a text such as a pasted issue, - for stdin, or a
    command line in one word.
    """
    app, save = options.app, options.save
    file, kernel = split_kernel(word)
    command: list[str] = []
    if " " in word and not os.path.exists(word):  # noqa: PTH110 - too long for a path
        command = shlex.split(word)
    is_text = not command and (file == "-" or Path(file).suffix in TEXTS)
    text = read_pasted(Path(file)) if is_text else ""
    asked = (kernel, options.backend, options.chip, *command)
    if file == "-":
        asked = (*asked, text)
    path = save or _kept_path(file, command, asked)
    wanted = NewRecipe(path, None, options.backend, options.chip, kernel)
    if command:
        started = StartedRecipe(wanted, wanted.from_command(command))
    elif is_text:
        started = from_text(app, wanted, text, Path(file))
        allow_code(started, Path(file), run_code=options.run_code)
    else:
        started = StartedRecipe(wanted, wanted.from_file(Path(file)))
    started = started.with_chip()
    started.write(over=save is None)
    for note in started.start.notes:
        print_stderr(note)
    print_stderr(f"recipe: {path}")
    return started


def _kept_path(file: str, command: Sequence[str], asked: Sequence[str | None]) -> Path:
    """Return the path below the home for the recipe of a program or a command line.
    Requests that differ in what is asked have recipes of their own.
    """
    stem = Path(file).stem
    if command:
        words = [word for word in command[1:] if not word.startswith("-")]
        programs = [Path(word).stem for word in words if Path(word).suffix]
        stem = programs[0] if programs else command[0]
    place = os.path.abspath(file)  # noqa: PTH100 - it need not exist
    parts = "\0".join([place, *map(str, asked)])
    key = hashlib.sha256(parts.encode()).hexdigest()[:12]
    name = name_from(Path(stem).name) or ("stdin" if file == "-" else "program")
    return default_home().kept(KeptKind.PROGRAMS) / key / f"{name}.yaml"


def _guessed(start: RecipeStart) -> Iterator[tuple[str, object]]:
    """Yield the names of a kernel's guessed parameters, with their values."""
    for values in start.keys.values():
        if isinstance(values, Mapping):
            for name, value in values.items():
                if name in start.guessed:
                    yield name, value
