"""List all that the home keeps, with size and last use, and remove what was not used
for long.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from triage.toolchains.home import Home, KeptKind, disk_errors, lock_file, remove_tree
from triage.toolchains.install import MANIFEST, USE, bytes_below, is_intact

TOOLCHAINS = "toolchains"  # the kind of toolchains and builders in tables of sizes
_OLDEST = 90 * 86400.0  # seconds without a use after which a kept file is pruned
_RESUMED = (KeptKind.JOURNALS, KeptKind.REDUCTIONS)  # pruned last


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A toolchain, a builder, a kept file with its checksum, or what a killed process
    left of one.
    """

    kind: str
    """`TOOLCHAINS`, or a `KeptKind`."""
    paths: tuple[Path, ...]
    bytes: int
    """The size on disk."""
    used: float
    """The last use in seconds since the epoch; 0 for leftovers."""
    intact: bool = True
    """Whether no file is missing."""

    @property
    def folder(self) -> Path:
        """The folder of a toolchain or a builder."""
        return self.paths[0]


@dataclass(frozen=True, slots=True)
class PrunedHome:
    """What was in the home, and what was removed."""

    before: list[StoredEntry]
    removed: list[StoredEntry]
    is_in_use: bool = False
    """Whether another command uses the home, so that everything stays."""

    def sizes(self, kind: str) -> dict[str, int]:
        """Return the bytes of all entries of a kind, and those of the removed ones."""
        return {
            name: sum(entry.bytes for entry in entries if entry.kind == kind)
            for name, entries in (("bytes", self.before), ("removed", self.removed))
        }


def stored_toolchains(home: Home) -> list[StoredEntry]:
    """Return all toolchains in a home, least recently used first."""
    entries = [
        _entry(
            TOOLCHAINS,
            [folder],
            [folder / USE, folder / MANIFEST],
            intact=is_intact(folder),
        )
        for folder in home.toolchains.glob("[!.]*")
        if folder.is_dir()
    ]
    return sorted(entries, key=lambda entry: (entry.used, entry.paths))


def _other_entries(home: Home) -> Iterator[StoredEntry]:
    for folder in home.builders.glob("*/[0-9]*"):
        yield _entry(TOOLCHAINS, [folder], [folder])
    for kind in KeptKind:
        groups = defaultdict(list)
        for path in home.kept(kind).glob("*"):
            groups[path.stem].append(path)
        for paths in groups.values():
            with suppress(OSError):  # another command is just replacing it
                yield _entry(kind, paths, paths)


def _entry(
    kind: str, paths: list[Path], marks: Iterable[Path], *, intact: bool = True
) -> StoredEntry:
    """Return an entry that was used when one of `marks` was changed last."""
    times = [mark.lstat().st_mtime for mark in marks if os.path.lexists(mark)]
    is_leftover = paths[0].name.startswith(".")
    used = 0.0 if is_leftover else max(times, default=0.0)
    size = sum(path.lstat().st_size + bytes_below(path) for path in paths)
    return StoredEntry(kind, tuple(paths), size, used, intact)


def prune_home(home: Home, keep: int) -> PrunedHome:
    """Remove what was not used for long, unless another command uses the home.

    What killed processes left goes first, then damaged toolchains, then the least
    recently used toolchains and builders until at most `keep` bytes are left. Other
    kept files are removed if they were not used for 90 days, then the least recently
    used until at most `keep` bytes are left; those with which a user can resume a
    command come last.
    """
    before = [*stored_toolchains(home), *_other_entries(home)]
    toolchains = [entry for entry in before if entry.kind == TOOLCHAINS]
    kept = [entry for entry in before if entry.kind != TOOLCHAINS]
    exclusively = fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        with (
            disk_errors(f"prune {home.path}"),
            lock_file(home.use_lock, exclusively, threading.Event()),
        ):
            for leftover in home.toolchains.glob(".*"):
                if leftover.is_dir():
                    remove_tree(leftover)
            toolchains.sort(key=lambda entry: (entry.intact, entry.used))
            kept.sort(key=lambda entry: (entry.kind in _RESUMED, entry.used))
            removed = _prune(toolchains, keep, 0.0)
            removed += _prune(kept, keep, time.time() - _OLDEST)
    except BlockingIOError:
        return PrunedHome(before, [], is_in_use=True)
    return PrunedHome(before, removed)


def _prune(
    entries: Iterable[StoredEntry], keep: int, oldest: float
) -> list[StoredEntry]:
    """Remove entries until at most `keep` bytes are left, and all that are damaged or
    were not used since `oldest`.
    """
    total = sum(entry.bytes for entry in entries)
    removed = []
    for entry in entries:
        if total <= keep and entry.intact and entry.used > oldest:
            continue
        for path in entry.paths:
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)
        total -= entry.bytes
        removed.append(entry)
    return removed
