"""Revisions of a compiler, and the compilers installed for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Revision:
    """A release, nightly or commit."""

    name: str  # as the user writes it
    commit: str | None = None  # the full sha
    date: str | None = None  # ISO, `YYYY-MM-DD`
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a compiler supports, as it reports it. Flags are written without dashes."""

    backends: frozenset[str] = frozenset()
    phases: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()  # the flags that are on or off
    # the words that a flag may take
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    stack_printer: int | None = None  # see `processes.crash_stack`


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One installed compiler."""

    family: str
    revision: Revision
    identity: str  # a hash of its content, part of every key of the result cache
    root: Path
    program: Path  # the native binary
    capabilities: Capabilities
    version: str | None = None  # PEP 440; a local build may report none


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a first-parent line."""

    sha: str  # full
    parent: str | None  # the first parent's sha; the root has none
    date: str  # the committer's, ISO 8601 with its offset
    subject: str
    # changed against the first parent: what a merge brought to the line
    files: tuple[str, ...] = ()

    @property
    def revision(self) -> Revision:
        """The commit as a revision; its name is the short sha."""
        return Revision(self.sha[:10], self.sha, self.date[:10], self.subject)
