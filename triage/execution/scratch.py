"""Folders in which processes work, removed even after a kill."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from triage.toolchains.home import disk_errors, remove_tree

LEFT = "left-"  # how the name of a folder begins that could not be removed


class Scratch:
    """A folder of folders that exist while a process works in them. Each is locked by its process: other containers that share
    the folder see locks, and no processes.
    """

    def __init__(self, root: Path, warn: Callable[[str], None] = lambda _: None) -> None:
        """Create the folder, and remove what killed processes left in it. warn: receives what could not be removed."""
        self._root, self._warn = root, warn
        with disk_errors("make room for compiles"):
            root.mkdir(parents=True, exist_ok=True)
            for folder in root.iterdir():
                if not folder.name.startswith(LEFT):
                    self._remove_unlocked(folder)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a new folder and remove it afterwards."""
        with disk_errors("make room for a compile"):
            folder, lock = self._locked_folder()
        try:
            yield folder
        finally:
            self._remove(folder)
            os.close(lock)

    def _remove(self, folder: Path) -> None:
        """Remove a folder. One that cannot be removed gets a name that no later command tries again."""
        if not remove_tree(folder):
            aside = folder.with_name(f"{LEFT}{folder.name}")
            with suppress(OSError):
                folder.rename(aside)
            self._warn(f"a compile left files that cannot be removed in {aside if aside.exists() else folder}")

    def _remove_unlocked(self, folder: Path) -> None:
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._remove(folder)
            finally:
                os.close(lock)

    def _locked_folder(self) -> tuple[Path, int]:
        while True:
            folder = Path(mkdtemp(dir=self._root))
            with suppress(FileNotFoundError):  # another process removed it before it was locked
                lock = os.open(folder, os.O_RDONLY)
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(lock, fcntl.LOCK_SH)
                if folder.is_dir():
                    return folder, lock
                os.close(lock)
