"""List all that the home keeps, with size and last use, and remove what was not used
for long.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
    is_in_use: bool
    """Whether another command uses the home, so that kept files stay."""

    def sizes(self, kind: str) -> dict[str, int]:
        """Return the bytes of all entries of a kind, and those of the removed ones."""
        return {
            "bytes": _bytes_of(self.before, kind),
            "removed": _bytes_of(self.removed, kind),
        }


def _bytes_of(entries: Iterable[StoredEntry], kind: str) -> int:
    return sum(entry.bytes for entry in entries if entry.kind == kind)


def sweep(home: Home) -> None:
    """Remove the folders that killed processes left while they installed or pruned.
    Nobody holds the lock of such a folder.
    """
    for path in (*home.toolchains.glob(".*.*"), *home.builders.glob("*/.*.*")):
        if path.suffix in (".staging", ".doomed"):
            with suppress(OSError), _locked_now(path.with_suffix(".lock")):
                remove_tree(path)


def _locked_now(path: Path) -> IO[bytes]:
    """Lock a file at once. Raises BlockingIOError if another process has locked it."""
    return lock_file(path, fcntl.LOCK_EX | fcntl.LOCK_NB, threading.Event())


def stored_toolchains(home: Home) -> list[StoredEntry]:
    """Return all toolchains in a home, least recently used first."""
    folders = [folder for folder in home.toolchains.glob("[!.]*") if folder.is_dir()]
    return _by_use(_toolchain_entry(folder, is_intact(folder)) for folder in folders)


def _stored_builders(home: Home) -> list[StoredEntry]:
    folders = [folder for folder in home.builders.glob("*/[0-9]*") if folder.is_dir()]
    return _by_use(_toolchain_entry(folder, intact=True) for folder in folders)


def _by_use(entries: Iterable[StoredEntry]) -> list[StoredEntry]:
    return sorted(entries, key=lambda entry: (entry.used, entry.paths))


def _toolchain_entry(folder: Path, intact: bool) -> StoredEntry:
    size = bytes_below(folder)
    return StoredEntry(TOOLCHAINS, (folder,), size, _last_use(folder), intact)


def _last_use(folder: Path) -> float:
    for path in (folder / USE, folder / MANIFEST, folder):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _kept_entries(home: Home) -> list[StoredEntry]:
    """Return the kept files in a home in the order in which they are pruned. Those with
    which a user can resume a command come last.
    """
    entries = []
    for kind in KeptKind:
        groups = defaultdict(list)
        for path in home.kept(kind).glob("*"):
            groups[path.stem].append(path)
        for name, paths in groups.items():
            with suppress(OSError):  # another command is just replacing it
                entries.append(_kept_entry(kind, name, paths))
    return sorted(
        entries, key=lambda entry: (entry.kind in _RESUMED, entry.used, entry.paths)
    )


def _kept_entry(kind: KeptKind, name: str, paths: list[Path]) -> StoredEntry:
    stats = [place.lstat() for path in paths for place in (path, *path.rglob("*"))]
    is_leftover = name.startswith(".")
    used = 0.0 if is_leftover else max(stat.st_mtime for stat in stats)
    size = sum(stat.st_size for stat in stats)
    return StoredEntry(kind, tuple(paths), size, used)


def prune_home(home: Home, keep: int) -> PrunedHome:
    """Remove what was not used for long.

    Damaged toolchains are removed, then the least recently used toolchains and builders
    until at most `keep` bytes are left. Those in use stay. Other kept files are removed
    if they were not used for 90 days, then the least recently used until at most `keep`
    bytes are left. They all stay while another command uses the home.
    """
    sweep(home)
    toolchains = [*stored_toolchains(home), *_stored_builders(home)]
    removed = _prune_toolchains(toolchains, keep)
    kept = _kept_entries(home)
    try:
        with disk_errors("prune kept files"), _locked_now(home.use_lock):
            removed += _prune_kept(_kept_entries(home), keep)
    except BlockingIOError:
        return PrunedHome([*toolchains, *kept], removed, is_in_use=True)
    return PrunedHome([*toolchains, *kept], removed, is_in_use=False)


def _prune_toolchains(entries: Iterable[StoredEntry], keep: int) -> list[StoredEntry]:
    total = sum(entry.bytes for entry in entries)
    removed = []
    for entry in sorted(entries, key=lambda entry: (entry.intact, entry.used)):
        if entry.intact and total <= keep:
            break
        if _remove_unused(entry.folder):
            removed.append(entry)
            total -= entry.bytes
    return removed


def _remove_unused(folder: Path) -> bool:
    """Remove a folder unless it is in use, and return whether it was removed."""
    lock = folder.with_name(f".{folder.name}.lock")
    doomed = folder.with_name(f".{folder.name}.doomed")
    try:
        with (
            disk_errors(f"remove {folder}"),
            _locked_now(lock),
            _locked_now(folder / USE),
        ):
            remove_tree(doomed)
            folder.rename(doomed)  # gone at once for every other process
    # another process uses it, or has removed it
    except (BlockingIOError, FileNotFoundError):
        return False
    remove_tree(doomed)
    return True


def _prune_kept(entries: Iterable[StoredEntry], keep: int) -> list[StoredEntry]:
    removed = []
    total, oldest = sum(entry.bytes for entry in entries), time.time() - _OLDEST
    for entry in entries:
        if total <= keep and entry.used > oldest:
            continue
        for path in entry.paths:
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
            else:
                path.unlink()
        total -= entry.bytes
        removed.append(entry)
    return removed
