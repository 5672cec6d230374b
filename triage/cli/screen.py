"""Progress and messages on stderr: live bars on a terminal, occasional lines in a
log.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from triage.model.progress import Progress, ProgressTask
from triage.report.printable import printable

_FIRST_LINE = 1.0  # seconds until a task that still runs is named in a log
_LOG_INTERVAL = 10.0  # seconds between two lines of one kind of task in a log


def print_stderr(text: str) -> None:
    """Print one message to stderr."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


@dataclass(slots=True)
class AppContext:
    """The options that hold for every command."""

    quiet: bool
    verbose: bool
    is_dry: bool = False
    """Install, download and compile nothing; the command sets it."""

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
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        from triage.report.terminal import console_for

        text = TextColumn("{task.description}", markup=False)
        columns = (
            SpinnerColumn(),
            text,
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self.bars = Progress(*columns, console=console_for(sys.stderr), transient=True)
        self.lock = threading.Lock()

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        with self.lock:
            task = _BarTask(self, text, total)
            self.bars.start()
            return task

    def note(self, text: str) -> None:
        self.bars.console.print(text)

    error = note


class _BarTask(ProgressTask):
    def __init__(self, owner: LiveBars, text: str, total: float | None) -> None:
        self._owner, self._number = owner, owner.bars.add_task(_fit(text), total=total)

    def advance(self, amount: float = 1.0) -> None:
        self._owner.bars.advance(self._number, amount)

    def describe(self, text: str) -> None:
        self._owner.bars.update(self._number, description=_fit(text))

    def finish(self) -> None:
        with self._owner.lock:
            if self._number in self._owner.bars.task_ids:
                self._owner.bars.remove_task(self._number)
            if not self._owner.bars.task_ids:
                self._owner.bars.stop()


class LogLines(Progress):
    """Progress as occasional lines, for CI logs and pipes; errors alone when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._next: dict[str, float] = {}

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        if self._quiet:
            return ProgressTask()
        return _LogTask(self, text, total)

    def show(self, text: str) -> None:
        """Print a line of a task, unless one of its kind was printed a moment ago: a
        search compiles many programs one after another.
        """
        kind = text.partition("  ")[0]
        if time.monotonic() >= self._next.get(kind, 0.0):
            self._next[kind] = time.monotonic() + _LOG_INTERVAL
            print_stderr(text)

    def note(self, text: str) -> None:
        if not self._quiet:
            print_stderr(text)

    def error(self, text: str) -> None:
        print_stderr(text)


class _LogTask(ProgressTask):
    def __init__(self, owner: LogLines, text: str, total: float | None) -> None:
        self._owner, self._text, self._total, self._done = owner, text, total, 0.0
        self._begin = time.monotonic() + _FIRST_LINE
        self._lock = threading.Lock()
        self._first = threading.Timer(_FIRST_LINE, self.advance, (0.0,))
        self._first.daemon = True
        self._first.start()

    def finish(self) -> None:
        self._first.cancel()

    def advance(self, amount: float = 1.0) -> None:
        with self._lock:
            self._done += amount
            if time.monotonic() >= self._begin:
                text = self._text
                if self._total not in (None, 0.0, 1.0):
                    text += f"  {self._done:g}/{self._total:g}"
                self._owner.show(text)

    def describe(self, text: str) -> None:
        with self._lock:
            self._text = text
        self.advance(0.0)


def _fit(text: str) -> str:
    room = max(30, shutil.get_terminal_size((100, 24)).columns - 50)
    if len(text) <= room:
        return text
    return text[: room - 1] + "…"
