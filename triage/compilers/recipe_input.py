"""How a family makes a recipe from a program, a command line or a pasted text.

A command line that the user types may name files with `@FILE`, as LLVM's tools allow.
They are read here; those of a pasted text never are.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_MOST_BYTES = 1 << 20  # of a response file


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """A program in a text."""

    line: int
    """The number of its first line, from 1."""
    text: str
    lacks: str | None = None
    """A sentence about the part that is missing, if the program is incomplete."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A call of a compiler."""

    tool: str
    """`iree-compile`, `iree-opt`, `llc`, ..."""
    words: tuple[str, ...]
    """Its arguments."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables set for it."""
    stdin: str | None = None
    """The file that is its standard input, if one is named."""
    line: int = 1
    """The number of its line in the text, from 1."""
    files: frozenset[str] = frozenset()
    """Words that are files on this machine. Empty for a pasted text, whose words are
    not looked up.
    """

    @property
    def text(self) -> str:
        """The call on one line."""
        words = [f"{name}={shlex.quote(value)}" for name, value in self.env]
        words += [self.tool, *map(shlex.quote, self.words)]
        if self.stdin:
            words += ["<", shlex.quote(self.stdin)]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class PastedText:
    """The programs and the calls of compilers in an issue, a gist or a log."""

    programs: tuple[TextExcerpt, ...] = ()
    commands: tuple[ShellCommand, ...] = ()


@dataclass(frozen=True, slots=True)
class RecipeRequest:
    """What a user says about a new recipe."""

    path: Path
    """The file to write it to."""
    source: Path | None
    """A program that replaces the one in a text or a command line."""
    backend: str | None
    chip: str | None
    kernel: str | None
    """The function to compile, if the program has several."""


class RecipeStarter:
    """Makes recipes from programs, command lines and texts."""

    def call_in(self, words: Sequence[str]) -> ShellCommand | None:
        """Return the call of this family's compiler in a command line, if there is one.
        A single word is a whole command line.
        """
        return None

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        """Return a recipe for a call of this family's compiler. No file that the call
        names is opened.

        Args:
            call: The call.
            backend: Used if the call names none.
            source: Replaces the input of the call.

        Raises:
            BadInput: The call cannot be read.
        """
        raise NotImplementedError

    @property
    def flags_allowed_in_texts(self) -> frozenset[str]:
        """The flags that are kept of a pasted command line, by name. None of them
        starts a program or names a file.
        """
        return frozenset()

    def from_source(self, request: RecipeRequest, source: Path) -> RecipeStart | None:
        """Return a recipe for an input file, if this family compiles such files. A
        kernel may be copied next to the recipe.

        Raises BadInput if the file has several kernels, or not the one that is wanted.
        """
        return None

    def from_pasted(self, request: RecipeRequest, program: str) -> RecipeStart | None:
        """Return a recipe for a program of a text, as `from_source` does for a file. No
        file that the program imports is read.
        """
        return None

    def read_text(self, text: str) -> PastedText:
        """Return this family's programs and command lines in a pasted text."""
        return PastedText()

    def target_named(self, backend: str, chip: str | None) -> Target:
        """Return the target that a user names; a backend may have several names."""
        return Target(backend, chip)

    def target_in(self, text: str) -> Target:
        """Guess the target of the programs in a text without a command line."""
        raise NotImplementedError


def with_response_files(call: ShellCommand) -> ShellCommand:
    """Return the call with each `@FILE` replaced by the words in that file, and with
    `files` filled. Raises BadInput if a response file is not a regular file, or larger
    than 1 MiB.
    """
    words: list[str] = []
    for word in call.words:
        if word.startswith("@"):
            words += _words_in(Path(word[1:]))
        else:
            words.append(word)
    files = frozenset(filter(_is_file, words))
    return replace(call, words=tuple(words), files=files)


def _words_in(path: Path) -> list[str]:
    cannot = f"the response file {path} cannot be read"
    if not _is_file(str(path)):
        raise BadInput(f"{cannot}: it is not a regular file")
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise BadInput(f"{cannot}: it is larger than 1 MiB")
        return shlex.split(content.decode("utf-8", "replace"), comments=True)
    except (OSError, ValueError) as error:
        raise BadInput(f"{cannot}: {error}") from error


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long for a name, or a name with a NUL
        return False
