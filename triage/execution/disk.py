"""Measure what a run writes, and the space that it leaves."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from triage.model.execution import UNLIMITED

_BLOCK = 4096  # bytes
_SHARE = 20  # the time between two measurements is at least so many times the duration of one


class DiskUse:
    """The bytes in the folder of a run and in the file of its standard output, and the least free space that was seen."""

    def __init__(self, folder: Path, stdout: Path | None, limit: int) -> None:
        """Measure what is there before the run, which does not count."""
        self._folder, self._limit = folder, limit
        self._others = [stdout] if stdout and not stdout.is_relative_to(folder) else []
        self.least_free: int | None = None
        self._due = 0.0
        self._before = 0 if limit == UNLIMITED else self._measured(limit)

    def is_exceeded(self, *, at_end: bool = False) -> bool:
        """Return whether the run has reached its limit. A folder of many files, which takes long to measure, is measured
        seldom until the run ends.
        """
        started = time.monotonic()
        if self._limit == UNLIMITED or (not at_end and started < self._due):
            return False
        used = self._measured(self._before + self._limit) - self._before
        self._due = time.monotonic() + _SHARE * (time.monotonic() - started)
        return used >= self._limit

    def note_free(self) -> None:
        """Note the free space, in bytes; none where no file can be created."""
        with suppress(OSError):
            state = os.statvfs(self._folder)
            free = 0 if state.f_files and not state.f_favail else state.f_bavail * state.f_frsize
            self.least_free = free if self.least_free is None else min(free, self.least_free)

    def _measured(self, enough: int) -> int:
        """Return the bytes of all files, or the first sum above `enough`. Links are not followed.

        A sparse file counts with its length, and every entry as at least a block, so that the number of files is limited too.
        """
        total, folders = 0, [os.fspath(self._folder)]
        for file in self._others:
            with suppress(OSError):
                total += file.stat().st_size
        for path in folders:
            with suppress(OSError), os.scandir(path) as entries:
                for entry in entries:
                    if total > enough:
                        return total
                    with suppress(OSError):  # removed meanwhile
                        state = entry.stat(follow_symlinks=False)
                        total += max(state.st_size, state.st_blocks * 512, _BLOCK)
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
        return total
