"""List all that the home keeps, with size and last use, and remove what was not used
for long.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from triage.model.errors import EnvironmentFailure
from triage.toolchains.home import Home, KeptKind, disk_errors, lock_file, remove_tree
from triage.toolchains.install import bytes_below, is_intact

TOOLCHAINS = "toolchains"  # the kind of toolchains and builders in tables of sizes
_OLDEST = 90 * 86400.0  # seconds without a use after which a kept file is pruned
_RESUMED = (KeptKind.JOURNALS, KeptKind.REDUCTIONS)  # pruned last


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A toolchain, a builder, or a kept file with its checksum."""

    kind: str
    """`TOOLCHAINS`, or a `KeptKind`."""
    paths: tuple[Path, ...]
    bytes: int
    """The size on disk."""
    used: float
    """The last use in seconds since the epoch."""
    intact: bool = True
    """Whether no file is missing, and no killed process left it."""

    @property
    def folder(self) -> Path:
        """The folder of a toolchain or a builder."""
        return self.paths[0]

    @property
    def prune_first(self) -> tuple[bool, bool, float]:
        """What is lowest is pruned first."""
        return self.intact, self.kind in _RESUMED, self.used


def stored_toolchains(home: Home) -> list[StoredEntry]:
    """Return all toolchains in a home, least recently used first."""
    folders = filter(Path.is_dir, home.toolchains.glob("[!.]*"))
    entries = [
        _entry(TOOLCHAINS, folder, intact=is_intact(folder)) for folder in folders
    ]
    return sorted(entries, key=lambda entry: entry.used)


def prune_home(home: Home, keep: int) -> tuple[list[StoredEntry], list[StoredEntry]]:
    """Remove what was not used for long, and return what there was and what was
    removed.

    What killed processes left and damaged toolchains go first, then the least recently
    used toolchains and builders until at most `keep` bytes are left. Other kept files
    go if they were not used for 90 days, then the least recently used until at most
    `keep` bytes are left; those with which a user can resume a command go last.

    Raises EnvironmentFailure if another command uses the home.
    """
    lock = fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        with (
            disk_errors(f"prune {home.path}"),
            lock_file(home.use_lock, lock, threading.Event()),
        ):
            toolchains = [*stored_toolchains(home), *_builders_and_leftovers(home)]
            kept = list(_kept_files(home))
            removed = _prune(toolchains, keep, 0.0)
            removed += _prune(kept, keep, time.time() - _OLDEST)
            return [*toolchains, *kept], removed
    except BlockingIOError:
        raise EnvironmentFailure(
            f"cannot prune {home.path}: another command uses it"
        ) from None


def _builders_and_leftovers(home: Home) -> Iterator[StoredEntry]:
    for folder in home.builders.glob("*/[0-9]*"):
        yield _entry(TOOLCHAINS, folder)
    for folder in filter(Path.is_dir, home.toolchains.glob(".*")):
        yield _entry(TOOLCHAINS, folder, intact=False)


def _kept_files(home: Home) -> Iterator[StoredEntry]:
    for kind in KeptKind:
        groups = defaultdict(list)
        for path in home.kept(kind).glob("*"):
            groups[path.stem].append(path)
        for name, paths in groups.items():
            with suppress(OSError):  # another command is just replacing it
                yield _entry(kind, *paths, intact=not name.startswith("."))


def _entry(kind: str, *paths: Path, intact: bool = True) -> StoredEntry:
    states = [path.lstat() for path in paths]
    size = sum(map(bytes_below, paths), sum(state.st_size for state in states))
    used = max(state.st_mtime for state in states)
    return StoredEntry(kind, paths, size, used, intact)


def _prune(entries: list[StoredEntry], keep: int, oldest: float) -> list[StoredEntry]:
    """Remove entries until at most `keep` bytes are left, and all that are damaged or
    were not used since `oldest`.
    """
    total = sum(entry.bytes for entry in entries)
    removed = []
    for entry in sorted(entries, key=lambda entry: entry.prune_first):
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
