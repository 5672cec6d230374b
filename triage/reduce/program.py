"""Programs that are reduced, and the cases that they are compiled under."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from triage.model.case import Case, InputKind


class Document(Protocol):
    """A program in a form that passes can change. Passes build new programs and never change one in place."""

    @property
    def kind(self) -> InputKind:
        """How the compiler reads it."""

    @property
    def suffix(self) -> str:
        """The suffix of its file, without the dot."""

    @property
    def unit(self) -> str:
        """What `size` counts: operation, node, statement or line."""

    @property
    def content(self) -> bytes:
        """The bytes that a compiler reads; equal for programs that differ only in names, where the form allows it."""

    @property
    def size(self) -> int:
        """How many pieces can be removed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The function of a program that is run."""

    name: str | None
    """None for the only one."""
    arguments: tuple[tuple[Hashable, str], ...]
    """The argument of the original program that each one is a copy of, or None, and its type in the program's notation."""


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """A program with the case that it is compiled under. The case's own input is ignored."""

    document: Document
    case: Case


def settings_of(case: Case) -> tuple[object, ...]:
    """Return the parts of a case that passes change."""
    return case.flags, case.target, case.phase, case.spec, *((case.run,) if case.run else ())
