"""Programs that are reduced, and the cases that they are compiled under."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triage.model.case import Case, InputKind


class UnreadableError(Exception):
    """Why a program cannot be read in a form."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The function of a program that is run."""

    name: str | None
    """The name, if the program has several functions."""
    arguments: tuple[tuple[Hashable, str], ...]
    """For each argument: its origin, which is the argument of the original program that
    it is a copy of, or None; and its type in the program's notation.
    """


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

    def operation_at(self, line: int) -> str | None:  # noqa: ARG002 - most forms have no operations
        """Return the kind of operation on a line of the content, if it is known."""
        return None

    def entry(self, name: str | None) -> Entry | None:  # noqa: ARG002 - most forms are not run
        """Return the function of this name, else the only public one; None if there is
        none, or if programs of this form are not run.
        """
        return None

    def ways_to_write(self) -> Sequence[bytes]:
        """Return the ways to write the program, the most readable first."""
        return [self.content]


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


def settings_of(case: Case) -> tuple[object, ...]:
    """Return the parts of a case that passes change."""
    return case.flags, case.target, case.phase, case.spec, case.run
