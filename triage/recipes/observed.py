"""What cases did on a toolchain, and how files with known failures change by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from triage.model.case import Case
from triage.model.outcome import Failure


@dataclass(frozen=True, slots=True)
class ObservedCase:
    """What a case did: its failure, None when it passed. version: PEP 440, None when unknown."""

    case: Case
    version: str | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ExpectationChange:
    """A change of what is expected of a case: a list or an entry of the file, None for nothing."""

    case: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class UpdatedFile:
    """A file with its changes. left: cases that it cannot describe, with the reason."""

    path: Path
    old: str
    new: str
    changes: tuple[ExpectationChange, ...] = ()
    left: tuple[tuple[str, str], ...] = ()

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff, without line ends."""
        name = str(self.path)
        old, new = self.old.splitlines(), self.new.splitlines()
        return unified_diff(old, new, f"{name} (old)", f"{name} (new)", lineterm="")
