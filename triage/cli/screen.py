"""Progress and messages on stderr: bars on a terminal, occasional lines in a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

from triage.report.printable import printable
from triage.toolchains.home import Progress, ProgressTask

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
        number = self.bars.add_task(text, total=total)

        def show(task: _Task) -> None:
            self.bars.update(number, description=task.text, completed=task.done)

        def remove() -> None:
            self.bars.remove_task(number)
            if not self.bars.tasks:
                self.bars.stop()

        return _Task(text, show, remove)

    def note(self, text: str) -> None:
        self.bars.console.print(text)

    error = note


class LogLines(Progress):
    """Progress as occasional lines, for CI logs and pipes; errors alone when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._next = time.monotonic() + _FIRST_LINE

    def task(self, text: str, total: float | None = None) -> ProgressTask:
        if self._quiet:
            return ProgressTask()

        def show(task: _Task) -> None:
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + _LOG_INTERVAL
                count = f"  {task.done:g}/{total:g}" if total and total != 1 else ""
                print_stderr(task.text + count)

        first = Timer(_FIRST_LINE, lambda: show(task))
        task = _Task(text, show, first.cancel)
        first.daemon = True
        first.start()
        return task

    def note(self, text: str) -> None:
        if not self._quiet:
            print_stderr(text)

    def error(self, text: str) -> None:
        print_stderr(text)


@dataclass
class _Task(ProgressTask):
    text: str
    show: Callable[[_Task], None]
    finish: Callable[[], None]
    done: float = 0.0

    def advance(self, amount: float = 1.0) -> None:
        self.done += amount
        self.show(self)

    def describe(self, text: str) -> None:
        self.text = text
        self.show(self)
