"""How a family makes a recipe from a program, a command line or a pasted text."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.case import Target
from triage.model.execution import Execution
from triage.recipes.family import RecipeStart

if TYPE_CHECKING:  # it parses MLIR
    pass


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """A part of a text."""

    line: int
    """The number of its first line, from 1."""
    text: str
    lacks: str | None = None
    """What a program that was cut lacks."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A call of the compiler."""

    tool: str
    """`iree-compile`, `iree-opt`, `llc`, ..."""
    words: tuple[str, ...]
    """Its arguments."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables set for it."""
    stdin: str | None = None
    """The file that is its standard input, if one is named."""
    line: int = 1
    """Its number in the text, from 1."""
    files: frozenset[str] = frozenset()
    """Words that are files here. Empty for a pasted text, which may not ask."""

    @property
    def text(self) -> str:
        """The call on one line."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.env]
        if self.stdin:
            stdin = ["<", shlex.quote(self.stdin)]
        else:
            stdin = []
        return " ".join([*settings, self.tool, *map(shlex.quote, self.words), *stdin])


@dataclass(frozen=True, slots=True)
class PastedText:
    """What an issue, a gist or a log holds of use for a recipe."""

    programs: tuple[TextExcerpt, ...] = ()
    commands: tuple[ShellCommand, ...] = ()


class RecipeFromInput:
    """Makes recipes from what a user has at hand."""

    def call_in(self, words: Sequence[str]) -> ShellCommand | None:
        """Return the call of this family's compiler in a command line: words, or one
        text.
        """
        return None

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        """Return a recipe for a call of this family's compiler. Opens no file that the
        call names.

        Args:
            call: The call.
            backend: Used if the call names none.
            source: The input, instead of the one of the call.

        Raises:
            BadInput: The call cannot be read.
        """
        raise NotImplementedError

    @property
    def flags_of_texts(self) -> frozenset[str]:
        """Names of flags that a pasted command line may pass: they neither start
        programs nor name files.
        """
        return frozenset()

    def from_source(
        self,
        recipe: Path,
        source: Path,
        backend: str | None,
        chip: str | None,
        kernel: str | None,
    ) -> RecipeStart | None:
        """Return a recipe for an input file, if it is one of this family.

        A kernel may be copied next to `recipe`, the file to write. `kernel` names the
        function if the file has several.

        Raises:
            BadInput: The file has several kernels, or not this one.
        """
        return None

    def from_pasted(
        self,
        recipe: Path,
        program: str,
        backend: str | None,
        chip: str | None,
        kernel: str | None,
    ) -> RecipeStart | None:
        """Return a recipe for a Python program of a text, as `from_source`. Reads no
        file that it imports.
        """
        return None

    def read_text(self, text: str) -> PastedText:
        """Return the programs and command lines of this family in an issue, a gist or a
        log.
        """
        return PastedText()

    def target_named(self, backend: str, chip: str | None) -> Target:
        """Return the target that a user names, by whatever name of the backend."""
        return Target(backend, chip)

    def target_in(self, text: str) -> Target:
        """Return what to compile the programs of a text for that has no command
        line.
        """
        raise NotImplementedError

    def improve(
        self, start: RecipeStart, compile_: Callable[[RecipeStart], Execution | None]
    ) -> RecipeStart:
        """Return the same recipe with guessed values that compile, as far as the
        compiler's errors lead to them.

        `compile_` compiles a candidate, if anything can be compiled.
        """
        return start
