"""List all that the home keeps, with size and last use, and remove what was not used
for long.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
    lock = fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        with (
            disk_errors(f"prune {home.path}"),
            lock_file(home.use_lock, lock, threading.Event()),
        ):
            entries = [*stored_toolchains(home), *_others(home)]
            entries.sort(key=lambda entry: (entry.intact, entry.used))
            left = sum(entry.bytes for entry in entries)
            removed = []
            for entry in entries:
                if entry.intact and left <= keep:
                    break
                for path in entry.paths:
                    if path.is_dir() and not path.is_symlink():
                        remove_tree(path)
                    else:
                        path.unlink(missing_ok=True)
                left -= entry.bytes
                removed.append(entry)
            return removed, left
    except BlockingIOError:
        raise EnvironmentFailure(
            f"cannot prune {home.path}: another command uses it"
        ) from None


def _others(home: Home) -> Iterator[StoredEntry]:
    for folder in home.builders.glob("[!.]*"):
        yield _entry([folder])
    for folder in filter(Path.is_dir, home.toolchains.glob(".*")):
        yield _entry([folder], intact=False)
    for kind in KeptKind:
        groups = defaultdict(list)
        for path in home.kept(kind).glob("*"):
            groups[path.stem].append(path)
        for name, paths in groups.items():
            yield _entry(paths, intact=not name.startswith("."))


def _entry(paths: Sequence[Path], *, intact: bool = True) -> StoredEntry:
    states = [path.lstat() for path in paths]
    size = sum(map(bytes_below, paths), sum(state.st_size for state in states))
    used = max(state.st_mtime for state in states)
    return StoredEntry(tuple(paths), size, used, intact)


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files in a folder, which others may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                total += (Path(parent) / name).lstat().st_size
    return total
