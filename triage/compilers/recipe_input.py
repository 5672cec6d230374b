"""A family's door: how it makes a recipe from a program or a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.compilers.parts import family_yaml
from triage.model.case import Target
from triage.recipes.recipe import RecipeStart


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A call of a compiler."""

    tool: str
    """`iree-compile`, `iree-opt`, `llc`, ..."""
    words: tuple[str, ...]
    """Its arguments."""
    variables: tuple[str, ...] = ()
    """`NAME=VALUE` in front of it. They are not set."""


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
    packages: tuple[str, ...] = ()
    """The packages with which a script runs, if a revision names any."""


class RecipeStarter:
    """Makes recipes from programs and command lines. No file that a pasted text names
    is opened.
    """

    tools: re.Pattern[str] = re.compile(r"(?P<tool>(?!))")
    """Finds the names of the compiler's programs in a command line. The group `tool`
    holds a name. By default, there are none.
    """

    @property
    def flags_allowed_in_texts(self) -> frozenset[str]:
        """The flags that are kept of a pasted command line, by name, from the family's
        `pasted_flags.yaml`. None of them starts a program or names a file.
        """
        lists = family_yaml(type(self), "pasted_flags.yaml") or {}
        return frozenset(name for names in lists.values() for name in names.split())

    def programs_in(self, text: str) -> Sequence[str]:
        """Return this family's programs in a pasted text."""
        return ()

    def suffix_of(self, program: str) -> str:
        """Return the suffix of a file for one of these programs."""
        return ".mlir"

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        """Return a recipe for a call of this family's compiler.

        Args:
            call: The call.
            backend: Used if the call names none.
            source: Replaces the input of the call.

        Raises:
            BadInput: The call cannot be read.
        """
        raise NotImplementedError

    def from_program(
        self, request: RecipeRequest, source: Path | None, text: str
    ) -> RecipeStart | None:
        """Return a recipe for a program, if this family compiles such programs.

        Args:
            request: What the user asks for.
            source: The program's file, or None for a program of a pasted text.
            text: The program; empty for a file that is not Python.

        Raises:
            BadInput: It has several kernels, or not the one that is wanted.
        """
        return None

    def target_in(self, text: str) -> Target:
        """Guess the target of the programs in a text without a command line."""
        raise NotImplementedError
