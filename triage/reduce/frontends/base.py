"""A kind of document: how it is read, checked, made smaller and written for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from triage.model.case import Case, InputKind
from triage.reduce.fixpoint import PassProgress


class Frontend(Protocol):
    """What the workflow needs to know of a kind of document. A new kind is one more of these."""

    @property
    def steps(self) -> Sequence[PassProgress]:
        """The passes, to be run to a fixpoint."""

    @property
    def finishing(self) -> Sequence[PassProgress]:
        """Passes that take no part away and seldom free one to be taken: run once, at the end."""

    def open(self, path: Path) -> Iterable[Program]:
        """The file as documents to begin with, the easiest to work on first, each read when it is asked for; none when it
        cannot be read.
        """

    def approach(self, line: int | None) -> PassProgress:
        """The pass that is run once before all others; `line`: where the compiler pointed in the file."""

    def valid(self, document: Program) -> bytes | None:
        """The document's canonical content, the same for programs that differ in nothing but names; None where it is
        no valid program.
        """

    def written(self, document: Program) -> Sequence[bytes]:
        """The ways to write the document down, the one that people like best first."""

    def close(self) -> None:
        """Let go of what was held."""


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
