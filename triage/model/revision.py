"""Revisions of a compiler, and the compilers installed for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Revision:
    """A release, nightly or commit. name: as the user writes it; date: ISO `YYYY-MM-DD`; commit: the full sha."""

    name: str
    commit: str | None = None
    date: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a compiler supports, as it reports it. flags: without dashes; switches: the flags that are on or off; choices:
    the flags that take one of a few words, with these words; stack_printer: see `execution.crash_stack`.
    """

    backends: frozenset[str] = frozenset()
    phases: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    stack_printer: int | None = None


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One installed compiler. identity: a hash of its content, part of every evidence key; program: the native binary;
    version: a PEP 440 release, None for a local build that reports none.
    """

    family: str
    revision: Revision
    identity: str
    root: Path
    program: Path
    capabilities: Capabilities
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A path that a commit changed against its first parent. added, removed: lines, 0 for a binary file."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a first-parent line. sha: full; parent: the first parent's sha, None for the root; date: the committer's,
    ISO 8601 with its offset; files: changes against the first parent, so that a merge shows what it brought to the line.
    """

    sha: str
    parent: str | None
    date: str
    subject: str
    files: tuple[ChangedFile, ...] = ()
