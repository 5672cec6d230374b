"""What cases did on a toolchain, and how files with known failures change by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import ClassVar

from triage.model.case import Case
from triage.model.outcome import Failure
from triage.model.revision import Revision


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
class LeftCase:
    """A case whose known failures stay as they are, and why."""

    case: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpdatedFile:
    """A file with its changes."""

    path: Path
    old: str
    new: str
    changes: tuple[ExpectationChange, ...] = ()
    left: tuple[LeftCase, ...] = ()
    """Cases that it cannot describe."""

    JSON_KEYS: ClassVar = {"old": None, "new": None, "left": None}
    JSON_PROPERTIES: ClassVar = ("diff",)

    @property
    def diff(self) -> str:
        """The changes as a unified diff."""
        name = str(self.path)
        old, new = self.old.splitlines(), self.new.splitlines()
        return "\n".join(unified_diff(old, new, f"{name} (old)", f"{name} (new)", lineterm=""))


@dataclass(frozen=True, slots=True)
class ExpectationUpdate:
    """Files with known failures as the results of a toolchain change them."""

    toolchain: Revision
    files: Sequence[UpdatedFile]
    left: Sequence[LeftCase]
    written: bool
    """False with `--dry-run`."""
