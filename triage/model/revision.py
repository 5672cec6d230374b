"""Places on the timeline, and the compilers installed for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Revision:
    """A release, nightly or commit. `name` is how the user writes it; date is ISO `YYYY-MM-DD`; commit a full sha."""

    name: str
    commit: str | None = None
    date: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a compiler says it can do, asked once and cached. `flags` are spelled without dashes; `switches` are those of
    them that are on or off, `choices` those that take one of a few words, and the words.
    """

    backends: frozenset[str] = frozenset()
    phases: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One installed compiler. `identity` names its content (wheel hash or a digest of the binary) and keys evidence;
    `program` is the native binary that is run; `version` is a PEP 440 release or None for a local build that tells none.
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
    """A path that a commit changed against its first parent; lines added and removed, 0 for a binary file."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Commit:
    """`sha` is full; `parent` the first parent's, None for the root; `date` the committer's, ISO 8601 with its offset.
    `files` are the changes against the first parent, so that a merge shows what it brought to the line.
    """

    sha: str
    parent: str | None
    date: str
    subject: str
    files: tuple[ChangedFile, ...] = ()
