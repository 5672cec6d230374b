"""What a reduction changes: a document and the case it is compiled under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from triage.model.case import Case, InputKind


class Program(Protocol):
    """A program in a form that passes can change. Never changed in place."""

    @property
    def kind(self) -> InputKind:
        """How the compiler is given it."""

    @property
    def suffix(self) -> str:
        """How its file's name ends, without the dot."""

    @property
    def unit(self) -> str:
        """What `size` counts, as a word: operation, node, statement, line."""

    @property
    def content(self) -> bytes:
        """The bytes a compiler reads; the same for programs that differ in names alone, where the form allows."""

    @property
    def size(self) -> int:
        """How many pieces there are to remove."""


@dataclass(frozen=True, eq=False, slots=True)
class Draft:
    """A document with the case it belongs to; the case's own input is not looked at."""

    document: Program
    case: Case
