"""Folders in which processes work, removed even after a kill."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from triage.execution.process import is_running
from triage.toolchains.home import disk_errors


class Scratch:
    """A folder of folders that exist while a process works in them. Each is named for its process."""

    def __init__(self, root: Path) -> None:
        """Create the folder, and remove what killed processes left in it."""
        self._root = root
        with disk_errors("make room for compiles"):
            root.mkdir(parents=True, exist_ok=True)
            for folder in root.iterdir():
                owner = folder.name.partition("-")[0]
                if owner.isdigit() and not is_running(int(owner)):
                    shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a new folder and remove it afterwards."""
        with disk_errors("make room for a compile"):
            folder = Path(mkdtemp(prefix=f"{os.getpid()}-", dir=self._root))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
