"""Folders in which processes work, removed even after a kill."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from triage.execution.process import is_running
from triage.toolchains.home import disk_errors


class Scratch:
    """A folder of folders that exist while a process works in them. Each is named for its process, and locked by it, because
    containers that share the folder do not see each other's processes.
    """

    def __init__(self, root: Path) -> None:
        """Create the folder, and remove what killed processes left in it."""
        self._root = root
        with disk_errors("make room for compiles"):
            root.mkdir(parents=True, exist_ok=True)
            for folder in root.iterdir():
                owner = folder.name.partition("-")[0]
                if owner.isdigit() and not is_running(int(owner)):
                    _remove_unlocked(folder)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a new folder and remove it afterwards."""
        with disk_errors("make room for a compile"):
            folder, lock = self._locked_folder()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def _locked_folder(self) -> tuple[Path, int]:
        while True:
            folder = Path(mkdtemp(prefix=f"{os.getpid()}-", dir=self._root))
            with suppress(FileNotFoundError):  # another container removed it before it was locked
                lock = os.open(folder, os.O_RDONLY)
                _lock(lock, fcntl.LOCK_SH)
                if folder.is_dir():
                    return folder, lock
                os.close(lock)


def _remove_unlocked(folder: Path) -> None:
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY)
        try:
            if _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _lock(descriptor: int, kind: int) -> bool:
    """Lock an open folder; return False when another process has it. A file system without locks counts as free."""
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
