"""One commit of a first-parent line, as git tells it."""

from __future__ import annotations

from dataclasses import dataclass


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
