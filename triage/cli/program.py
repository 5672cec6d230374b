"""A recipe made from a program, a command line or a pasted text: by `triage recipe
new`, or in the place of a recipe.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from triage.classify.log import decoded
from triage.cli.cases import ProgramTarget, named_family
from triage.cli.command import AppContext, print_stderr
from triage.compilers.pasted_text import RecipeRequest
from triage.compilers.recipe_start import (
    NoProgramError,
    start_from_command,
    start_from_file,
    start_from_text,
)
from triage.compilers.registry import RecipesByFamily
from triage.model.errors import BadFiles, BadInput
from triage.model.revision import FamilyRef
from triage.processes.sealing import is_sealing
from triage.recipes.loader import load_recipes
from triage.recipes.recipe import RecipeStart, new_recipe
from triage.recipes.values import name_from, why_unreadable
from triage.toolchains.home import KeptKind, default_home, disk_errors

_FIRST_CHARACTERS = 1000  # a binary file has a zero among them
# not in the first word: the folder of a tool may have a dot in its name
_NAMED_FILE = re.compile(r"(?<=\s)[^\s-]\S*\.\w+(?=['\"]?(?!\S))")
TEXTS = (".md", ".txt", ".log", ".html")


@dataclass(frozen=True)
class StartedRecipe:
    """A recipe in the making, not yet written."""

    path: Path
    start: RecipeStart
    text: str
    """The text that was pasted; empty if none was."""

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
        files that exist, unless `overwrite` is set, and for a recipe that nothing
        loads, of which no file is left.
        """
        path = self.path
        start = self.start
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
            load_recipes([path], RecipesByFamily())
        except BadFiles as error:
            for written in texts:
                written.unlink()
            # nobody has seen this file
            mistakes = "\n".join(problem.message for problem in error.problems)
            raise BadInput(mistakes) from error


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


def with_program(request: RecipeRequest, word: str) -> RecipeRequest:
    """Return a request about a program, FILE.py:KERNEL, or a text such as a pasted
    issue, which is read; - is stdin.
    """
    kernel = None
    match = re.fullmatch(r"(.*\.py):(\w+)", word, re.DOTALL)
    if match:
        word, kernel = match.groups()
    file = Path(word)
    if word == "-" or file.suffix in TEXTS:
        return replace(request, text=_read_text(file))
    return replace(request, source=file, kernel=kernel)


def _read_text(source: Path) -> str:
    try:
        stdin = str(source) == "-"
        text = decoded(sys.stdin.buffer.read() if stdin else source.read_bytes())
    except OSError as error:
        raise BadInput(f"{source} cannot be read: {error.strerror}") from error
    if not text.strip() or "\0" in text[:_FIRST_CHARACTERS]:
        raise BadInput(f"{source} is empty or binary; name a text in UTF-8")
    return text


def start_recipe(
    app: AppContext, request: RecipeRequest, word: str, line: str
) -> StartedRecipe:
    """Start a recipe from a text, from a command line, or else from a program.

    Raises BadInput if nothing can be compiled, or if no release knows the chip.
    """
    if request.text:
        with app.progress().task(f"read {word}"):
            start = start_from_text(request, word)
    elif line:
        start = start_from_command(request, line)
    else:
        assert request.source
        start = start_from_file(request, request.source)
    if start.target and request.chip:
        start = replace(start, target=replace(start.target, chip=request.chip))
    return StartedRecipe(request.path, start, request.text)


def write_recipe_for(
    word: str, options: ProgramTarget, revs: Sequence[str | None]
) -> StartedRecipe:
    """Write a recipe into the home for what stands in the place of one: a program, a
    text, or a command line in one word. `revs` may name the package that a script is
    about.
    """
    packages = FamilyRef.parse(named_family(*revs) or "").packages
    file = Path(word)
    request = RecipeRequest(file, None, options.backend, options.chip, None, packages)
    line = ""
    if " " in word and not os.path.exists(word):  # noqa: PTH110 - too long for a path
        line = word
        named = _NAMED_FILE.search(word)
        if named:
            file = Path(named[0])
    else:
        request = with_program(request, word)
        if request.source:
            file = request.source
            _check_program(file)
    absolute = os.path.abspath(file)  # noqa: PTH100 - it need not exist
    content = repr((absolute, line, request)).encode()
    key = hashlib.sha256(content).hexdigest()[:12]
    title = name_from("stdin" if word == "-" else file.stem) or "program"
    path = default_home().folder(KeptKind.PROGRAMS) / key / f"{title}.yaml"
    try:
        request = replace(request, path=path)
        started = start_recipe(options.app, request, word, line)
        if request.text and started.start.input.suffix == ".py":
            allow_code(options.app, started.start.copied, file)
    except NoProgramError as error:
        error.text = request.text
        raise
    started.write(overwrite=True)
    for note in (*started.start.notes, f"recipe: {path}"):
        options.app.note(note)
    return started


def program_suffixes() -> list[str]:
    """Return how the names of programs end."""
    families = RecipesByFamily().values()
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
