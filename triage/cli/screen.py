"""Progress and messages on stderr: bars on a terminal, occasional lines in a log."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from triage.model.progress import Progress, ProgressTask
from triage.report.printable import printable

_FIRST_LINE = 1.0  # seconds until a task that still runs is named in a log
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
        columns = (text, BarColumn(24), TimeElapsedColumn())
        self.bars = Progress(*columns, console=console_for(sys.stderr), transient=True)

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        task = _BarTask(self, text, total)
        self.bars.start()
        return task

    def note(self, text: str) -> None:
        self.bars.console.print(text)

    error = note


class _BarTask(ProgressTask):
    def __init__(self, owner: LiveBars, text: str, total: float | None) -> None:
        self._bars = owner.bars
        self._number = self._bars.add_task(text, total=total)

    def advance(self, amount: float = 1.0) -> None:
        self._bars.advance(self._number, amount)

    def describe(self, text: str) -> None:
        self._bars.update(self._number, description=text)

    def finish(self) -> None:
        if self._number in self._bars.task_ids:
            self._bars.remove_task(self._number)
        if not self._bars.task_ids:
            self._bars.stop()


class LogLines(Progress):
    """Progress as occasional lines, for CI logs and pipes; errors alone when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.next = 0.0
        """When the next line may be printed."""

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        if self._quiet:
            return ProgressTask()
        return _LogTask(self, text, total)

    def note(self, text: str) -> None:
        if not self._quiet:
            print_stderr(text)

    def error(self, text: str) -> None:
        print_stderr(text)


class _LogTask(ProgressTask):
    def __init__(self, owner: LogLines, text: str, total: float | None) -> None:
        self._owner, self._text, self._total, self._done = owner, text, total, 0.0
        self._begin = time.monotonic() + _FIRST_LINE
        self._first = threading.Timer(_FIRST_LINE, self.advance, (0.0,))
        self._first.daemon = True
        self._first.start()

    def finish(self) -> None:
        self._first.cancel()

    def advance(self, amount: float = 1.0) -> None:
        self._done += amount
        now, text = time.monotonic(), self._text
        if self._total not in (None, 0.0, 1.0):
            text += f"  {self._done:g}/{self._total:g}"
        if now >= max(self._begin, self._owner.next):
            self._owner.next = now + _LOG_INTERVAL
            print_stderr(text)

    def describe(self, text: str) -> None:
        self._text = text
        self.advance(0.0)
