"""Folders for single runs: what a compiler drops where it works stays in there and is gone afterwards."""

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
    """A folder whose folders carry the number of the process that made them."""

    def __init__(self, folder: Path) -> None:
        """Made if need be, and rid of what processes that were killed left behind."""
        self._folder = folder
        with disk_errors("make room for compiles"):
            folder.mkdir(parents=True, exist_ok=True)
            for place in folder.iterdir():
                owner = place.name.partition("-")[0]
                if owner.isdigit() and not is_running(int(owner)):
                    shutil.rmtree(place, ignore_errors=True)

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A new folder of this process alone."""
        with disk_errors("make room for a compile"):
            place = Path(mkdtemp(prefix=f"{os.getpid()}-", dir=self._folder))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
