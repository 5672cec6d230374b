"""Programs that are reduced, and the cases that they are compiled under."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from triage.model.case import Case, InputKind


class UnreadableError(Exception):
    """Why a program cannot be read in a form."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The function that is run."""

    function: str | None
    arguments: tuple[tuple[Hashable, str], ...]
    """The origin of each, by which smaller programs know it, and its type in MLIR."""


class Reducible(ABC):
    """A program in a form that passes can change. Passes build new programs and never
    change one in place.
    """

    kind: InputKind
    """How the compiler reads it."""
    suffix: str
    """The suffix of its file, without the dot."""
    unit: str
    """What `size` counts: operation, node, statement or line."""

    @property
    @abstractmethod
    def content(self) -> bytes:
        """The bytes that a compiler reads."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many pieces can be removed."""

    @property
    def canonical(self) -> bytes | None:
        """The content, equal for programs that differ only in names; None if the
        program is not valid.
        """
        return self.content or None

    def entry(self, name: str | None) -> Entry | None:  # noqa: ARG002 - forms that run need it
        """Return the function that is run: the one with this name, else the first
        public one. None if no value can be given to its arguments.
        """
        return None

    @property
    def readable_content(self) -> bytes:
        """The program as it is shown to readers."""
        return self.content


@dataclass(frozen=True, eq=False, slots=True)
class ReducedCase:
    """A program with the case that it is compiled under. The case's own input is
    ignored.
    """

    program: Reducible
    case: Case

    def with_program(self, program: Reducible) -> ReducedCase:
        return ReducedCase(program, self.case)

    def with_case(self, **changes: Any) -> ReducedCase:
        return ReducedCase(self.program, replace(self.case, **changes))
