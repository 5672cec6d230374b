"""What is installed, how long ago it was used, and making room again."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock

from triage.toolchains.home import disk_errors
from triage.toolchains.install import MANIFEST, is_whole

_USE = ".used"
_held: dict[Path, IO[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Stored:
    """One installed toolchain: bytes on disk, seconds since the epoch of its last use, whether every file is there."""

    folder: Path
    bytes: int
    used: float
    whole: bool


def hold(folder: Path) -> None:
    """Mark a toolchain as in use by this process, until it ends: its time of last use is now, and no other process
    prunes it. The lock is the kernel's, so a killed process holds nothing.
    """
    if folder in _held:
        return
    with disk_errors(f"use {folder}"):
        mark = (folder / _USE).open("ab")
        os.utime(folder / _USE)
        fcntl.flock(mark, fcntl.LOCK_SH)
    _held[folder] = mark


def stored(toolchains: Path) -> list[Stored]:
    """All installs below the cache folder, least recently used first."""
    folders = toolchains.iterdir() if toolchains.is_dir() else ()
    found = (
        Stored(folder, _bytes(folder), _last_use(folder), is_whole(folder))
        for folder in folders
        if folder.is_dir() and not folder.name.startswith(".")
    )
    return sorted(found, key=lambda one: (one.used, one.folder))


def prune(toolchains: Path, keep: int) -> list[Stored]:
    """Remove the least recently used installs until at most `keep` bytes are left; broken ones go first, those in use
    stay. Returns what was removed.
    """
    everything = stored(toolchains)
    total = sum(one.bytes for one in everything)
    removed: list[Stored] = []
    for one in sorted(everything, key=lambda each: each.whole):
        if one.whole and total <= keep:
            break
        if _remove(toolchains, one.folder):
            removed.append(one)
            total -= one.bytes
    return removed


def _remove(toolchains: Path, folder: Path) -> bool:
    with disk_errors(f"remove {folder}"), FileLock(toolchains / f".{folder.name}.lock"):
        try:
            with (folder / _USE).open("ab") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        doomed = toolchains / f".{folder.name}.doomed-{os.getpid()}"
        folder.rename(doomed)  # gone at once for everybody else, however long the deletion takes
        shutil.rmtree(doomed)
        return True


def _bytes(folder: Path) -> int:
    try:
        return sum(json.loads((folder / MANIFEST).read_text())["files"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _last_use(folder: Path) -> float:
    for mark in (folder / _USE, folder / MANIFEST, folder):
        try:
            return mark.stat().st_mtime
        except OSError:
            continue
    return 0.0
