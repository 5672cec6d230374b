"""A kind of document: how it is read, checked, made smaller and written for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from triage.reduce.draft import Program
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
