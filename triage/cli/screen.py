"""Two consoles: answers on stdout, progress on stderr. Colour and live bars only where a person looks."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from triage.model.progress import Progress, Silent, Task

_PLAIN_WIDTH = 160  # of pipes and files, where lines are not cut to a window
_SELDOM = 10.0  # seconds between two lines of the same task in a log
_quiet = False


class Format(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"


def set_quiet(quiet: bool) -> None:
    """Switch progress off for this run of the program."""
    global _quiet
    _quiet = quiet


def console(stream: Any = None) -> Console:
    """A console for stdout or another stream; wide where no window bounds it."""
    stream = stream or sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PLAIN_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty(), emoji=False)


def show(blocks: Iterable[RenderableType]) -> None:
    """Write an answer for people. Tables pad their lines to the full width, which nobody wants in a file."""
    out = console()
    for block in blocks:
        if out.is_terminal:
            out.print(block)
            continue
        with out.capture() as captured:
            out.print(block)
        sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def show_json(value: Any) -> None:
    """Write an answer for programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def tell(text: str) -> None:
    """One line to stderr."""
    console(sys.stderr).print(text, markup=False)


class LiveBars:
    """Bars on a terminal, drawn while something is under way and gone afterwards, so that a prompt has the screen."""

    def __init__(self) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, console=console(sys.stderr), transient=True)
        self._shown = 0
        self._lock = threading.Lock()

    def task(self, text: str, total: float | None = None) -> Task:
        with self._lock:
            self._shown += 1
            if self._shown == 1:
                self._bars.start()
            return _Bar(self, self._bars, self._bars.add_task(_cut(text), total=total))

    def note(self, text: str) -> None:
        self._bars.console.print(text, markup=False)

    def done(self, number: TaskID) -> None:
        """One bar less; the last one takes the display away."""
        with self._lock:
            self._bars.remove_task(number)
            self._shown -= 1
            if self._shown == 0:
                self._bars.stop()

    def close(self) -> None:
        """Take everything away."""
        with self._lock:
            self._bars.stop()


class _Bar:
    def __init__(self, owner: LiveBars, bars: Bars, number: TaskID) -> None:
        self._owner, self._bars, self._number = owner, bars, number
        self._finished = False

    def advance(self, amount: float = 1.0) -> None:
        self._bars.advance(self._number, amount)

    def describe(self, text: str) -> None:
        self._bars.update(self._number, description=_cut(text))

    def finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._owner.done(self._number)


class LogLines:
    """Progress as seldom lines, for CI logs and pipes."""

    def task(self, text: str, total: float | None = None) -> Task:
        return _Lines(text, total)

    def note(self, text: str) -> None:
        tell(text)

    def close(self) -> None:
        """Nothing is left to take away."""


class _Lines:
    def __init__(self, text: str, total: float | None) -> None:
        self._text, self._total, self._done = text, total, 0.0
        self._next = time.monotonic() + _SELDOM / 5
        self._lock = threading.Lock()

    def advance(self, amount: float = 1.0) -> None:
        with self._lock:
            self._done += amount
            self._maybe()

    def describe(self, text: str) -> None:
        with self._lock:
            self._text = text
            self._maybe()

    def finish(self) -> None:
        pass

    def _maybe(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SELDOM
            count = f"  {self._done:g}/{self._total:g}" if self._total else ""
            tell(f"{self._text}{count}")


def open_progress() -> LiveBars | LogLines | None:
    """The progress that suits where stderr goes; None when it is unwanted."""
    if _quiet:
        return None
    return LiveBars() if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else LogLines()


def progress_of(shown: LiveBars | LogLines | None) -> Progress:
    """As the port that the workflows speak to."""
    return shown or Silent()


def _cut(text: str) -> str:
    room = max(30, shutil.get_terminal_size((100, 24)).columns - 50)
    return text if len(text) <= room else text[: room - 1] + "…"
