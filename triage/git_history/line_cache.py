"""A line that was read before, kept on disk: what comes on top later is all that git is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from triage.git_history.repository import LINE, GitRefused, Repository, read_line, write_line
from triage.model.revision import Commit

_FORMAT = "first-parent-line-1"


def line_of(repository: Repository, cache: Path | None, head: str) -> list[Commit]:
    """The first-parent line that ends in the commit `head`, oldest first.

    cache: the folder that keeps the line of each repository; one that cannot be written costs time and nothing else.
    """
    # The line of a shallow clone grows at its old end when the clone is completed, and then its head says nothing.
    note = None if cache is None or repository.is_shallow else _note(cache, repository)
    known = _load(note) if note is not None else []
    line = _grown(repository, known, head)
    if line is None:
        line = _read(repository, head)
    if note is not None and (len(line) > len(known) or line[-1] != known[len(line) - 1]):
        with suppress(OSError):
            _save(note, line)
    return line


def _grown(repository: Repository, known: Sequence[Commit], head: str) -> list[Commit] | None:
    """The line to `head` from what is known and what git adds to it; None when they do not join."""
    if not known:
        return None
    at = {commit.sha: index for index, commit in enumerate(known)}
    if head in at:
        return list(known[: at[head] + 1])
    try:
        added = _read(repository, head, f"^{known[-1].sha}")
    except GitRefused:  # the commit known last is gone: another repository took this one's place
        return None
    # The walk from head ends where it meets anything that the known line contains. Only where that is a commit of the
    # known line itself, its beginning is the beginning of ours too.
    joint = at.get(added[0].parent or "") if added else None
    return None if joint is None else [*known[: joint + 1], *added]


def _read(repository: Repository, *commits: str) -> list[Commit]:
    return read_line(repository.ask(*LINE, *commits, "--").decode("utf-8", "replace"))


def _note(cache: Path, repository: Repository) -> Path:
    return cache / f"{blake2b(str(repository.common_dir).encode(), digest_size=12).hexdigest()}.line"


def _load(note: Path) -> list[Commit]:
    """What was kept; nothing when it is damaged or of another format."""
    try:
        form, count, head, text = note.read_bytes().decode("utf-8").split("\n", 3)
        line = read_line(text)
    except (OSError, ValueError):
        return []
    whole = form == _FORMAT and str(len(line)) == count and line and line[-1].sha == head
    return line if whole else []


def _save(note: Path, line: Sequence[Commit]) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    draft = note.with_suffix(f".{os.getpid()}")
    try:
        # Written as bytes: text mode would turn a carriage return within a subject into a line break.
        draft.write_bytes(f"{_FORMAT}\n{len(line)}\n{line[-1].sha}\n{write_line(line)}".encode())
        draft.replace(note)
    finally:
        draft.unlink(missing_ok=True)
