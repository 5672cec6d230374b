"""Progress and messages on stderr: live bars on a terminal, occasional lines in a log."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.model.progress import Progress, ProgressTask
from triage.report.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_LOG_INTERVAL = 10.0  # seconds between two lines of the same task in a log


def print_stderr(text: str) -> None:
    """Print one message to stderr."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


class LiveBars(Progress):
    """Bars on a terminal, removed when nothing is running."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        from triage.report.terminal import console_for

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars: Bars = Progress(*columns, console=console_for(sys.stderr), transient=True)
        self._running = 0
        self._lock = threading.Lock()

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._bars.start()
            return _BarTask(self, self._bars, self._bars.add_task(_fit(text), total=total))

    def note(self, text: str) -> None:
        self._bars.console.print(text)

    error = note

    def remove(self, number: TaskID) -> None:
        """Remove a bar, and the display with the last one."""
        with self._lock:
            self._bars.remove_task(number)
            self._running -= 1
            if self._running == 0:
                self._bars.stop()

    def close(self) -> None:
        """Remove the display."""
        with self._lock:
            self._bars.stop()


class _BarTask(ProgressTask):
    def __init__(self, owner: LiveBars, bars: Bars, number: TaskID) -> None:
        self._owner, self._bars, self._number = owner, bars, number
        self._finished = False

    def advance(self, amount: float = 1.0) -> None:
        self._bars.advance(self._number, amount)

    def describe(self, text: str) -> None:
        self._bars.update(self._number, description=_fit(text))

    def finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._owner.remove(self._number)


class LogLines(Progress):
    """Progress as occasional lines, for CI logs and pipes."""

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        return _LogTask(text, total)

    def note(self, text: str) -> None:
        print_stderr(text)

    error = note

    def close(self) -> None:
        """Do nothing: printed lines stay."""


class ErrorsOnly(Progress):
    """No progress, for --quiet."""

    def error(self, text: str) -> None:
        print_stderr(text)


class _LogTask(ProgressTask):
    def __init__(self, text: str, total: float | None) -> None:
        self._text, self._total, self._done = text, total, 0.0
        self._next = time.monotonic() + _LOG_INTERVAL / 5
        self._lock = threading.Lock()

    def advance(self, amount: float = 1.0) -> None:
        with self._lock:
            self._done += amount
            self._print_when_due()

    def describe(self, text: str) -> None:
        with self._lock:
            self._text = text
            self._print_when_due()

    def finish(self) -> None:
        pass

    def _print_when_due(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOG_INTERVAL
            count = f"  {self._done:g}/{self._total:g}" if self._total else ""
            print_stderr(f"{self._text}{count}")


def _fit(text: str) -> str:
    """Shorten a text to the part of the terminal's width that a bar leaves."""
    room = max(30, shutil.get_terminal_size((100, 24)).columns - 50)
    return text if len(text) <= room else text[: room - 1] + "…"


@dataclass(slots=True)
class AppContext:
    """The options that hold for every command. `trust`: results of other machines count as this machine's
    own; executor: where compiles run, None for TRIAGE_EXECUTOR or this machine.
    """

    quiet: bool = False
    trust: bool = False
    executor: str | None = None

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Show progress on stderr: bars on a terminal, lines in a log, nothing when quiet."""
        if self.quiet:
            yield ErrorsOnly()
            return
        is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        shown = LiveBars() if is_live else LogLines()
        try:
            yield shown
        finally:
            shown.close()
