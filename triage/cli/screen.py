"""Progress and messages on stderr: bars on a terminal, occasional lines in a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING

from triage.model.progress import Progress, ProgressTask
from triage.report.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

_FIRST_LINE = 1.0  # seconds until a log says what runs
_LOG_INTERVAL = 10.0  # seconds between two lines in a log


def print_stderr(text: str) -> None:
    """Print one message to stderr."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class AppContext:
    """The options that hold for every command."""

    quiet: bool
    verbose: bool
    run_code: bool = False

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Show progress on stderr: bars on a terminal, lines in a log, only errors when
        quiet.
        """
        if self.quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            yield LogLines(quiet=self.quiet)
            return
        shown = LiveBars()
        try:
            yield shown
        finally:
            shown.bars.stop()


class LiveBars(Progress):
    """Bars on a terminal, removed when nothing is running."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from triage.report.terminal import console_for

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(12), TimeElapsedColumn())
        self.bars = Progress(*columns, console=console_for(sys.stderr), transient=True)

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        self.bars.start()
        return _BarTask(self.bars, text, total)

    def note(self, text: str) -> None:
        self.bars.console.print(text)

    error = note


class _BarTask(ProgressTask):
    def __init__(self, bars: Bars, text: str, total: float | None) -> None:
        self._bars, self._number = bars, bars.add_task(text, total=total)

    def advance(self, amount: float = 1.0) -> None:
        self._bars.advance(self._number, amount)

    def describe(self, text: str) -> None:
        self._bars.update(self._number, description=text)

    def finish(self) -> None:
        self._bars.remove_task(self._number)
        if not self._bars.tasks:
            self._bars.stop()


class LogLines(Progress):
    """Progress as occasional lines, for CI logs and pipes; errors alone when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._next = time.monotonic() + _FIRST_LINE

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        if self._quiet:
            return ProgressTask()
        return _LogTask(self, text, total)

    def note(self, text: str) -> None:
        if not self._quiet:
            print_stderr(text)

    def error(self, text: str) -> None:
        print_stderr(text)

    def occasionally(self, text: str) -> None:
        """Print a line unless there was one a moment ago."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOG_INTERVAL
            print_stderr(text)


class _LogTask(ProgressTask):
    def __init__(self, lines: LogLines, text: str, total: float | None) -> None:
        self._lines, self._text, self._total, self._done = lines, text, total, 0.0
        self._first = Timer(_FIRST_LINE, self.advance, (0.0,))
        self._first.daemon = True
        self._first.start()

    def advance(self, amount: float = 1.0) -> None:
        self._done += amount
        text = self._text
        if self._total not in (None, 0.0, 1.0):
            text += f"  {self._done:g}/{self._total:g}"
        self._lines.occasionally(text)

    def describe(self, text: str) -> None:
        self._text = text
        self.advance(0.0)

    def finish(self) -> None:
        self._first.cancel()
