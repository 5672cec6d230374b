"""List all that the home keeps, with size and last use, and remove what was not used
for long.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from triage.model.errors import EnvironmentFailure
from triage.toolchains.home import Home, KeptKind, disk_errors, lock_file, remove_tree
from triage.toolchains.install import is_intact


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A toolchain, a builder, or a kept file with its checksum."""

    paths: tuple[Path, ...]
    bytes: int
    """The size on disk."""
    used: float
    """The last use in seconds since the epoch."""
    intact: bool = True
    """Whether no killed process left it."""

    @property
    def folder(self) -> Path:
        """The folder of a toolchain or a builder."""
        return self.paths[0]


def stored_toolchains(home: Home) -> list[StoredEntry]:
    """Return all toolchains in a home."""
    folders = filter(Path.is_dir, home.toolchains.glob("[!.]*"))
    return [_entry([folder], intact=is_intact(folder)) for folder in folders]


def prune_home(home: Home, keep: int) -> tuple[list[StoredEntry], int]:
    """Remove what killed processes left, and then the least recently used until at most
    `keep` bytes are left. Return what was removed, and how many bytes are left.

    Raises EnvironmentFailure if another command uses the home.
    """
    with disk_errors(f"prune {home.path}"), ExitStack() as stack:
        lock = fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            stack.enter_context(lock_file(home.use_lock, lock, threading.Event()))
        except BlockingIOError:
            raise EnvironmentFailure(
                f"cannot prune {home.path}: another command uses it"
            ) from None
        entries = [*stored_toolchains(home), *_other_entries(home)]
        entries.sort(key=lambda entry: (entry.intact, entry.used))
        left, removed = sum(entry.bytes for entry in entries), []
        for entry in entries:
            if entry.intact and left <= keep:
                break
            for path in entry.paths:
                if path.is_symlink() or not path.is_dir():
                    path.unlink(missing_ok=True)
                else:
                    remove_tree(path)
            left -= entry.bytes
            removed.append(entry)
        return removed, left


def _other_entries(home: Home) -> Iterator[StoredEntry]:
    for folder in home.builders.glob("[!.]*"):
        yield _entry([folder])
    for folder in filter(Path.is_dir, home.toolchains.glob(".*")):
        yield _entry([folder], intact=False)
    for kind in KeptKind:
        stem = attrgetter("stem")
        paths = sorted(home.folder(kind).glob("*"), key=stem)
        for name, group in groupby(paths, stem):
            yield _entry([*group], intact=not name.startswith("."))


def _entry(paths: Sequence[Path], *, intact: bool = True) -> StoredEntry:
    states = [path.lstat() for path in paths]
    size = sum(map(_bytes_below, paths), sum(state.st_size for state in states))
    used = max(state.st_mtime for state in states)
    return StoredEntry(tuple(paths), size, used, intact)


def _bytes_below(folder: Path) -> int:
    """Return the bytes of all files in a folder, which others may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                total += (Path(parent) / name).lstat().st_size
    return total
