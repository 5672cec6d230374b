"""`triage watch`."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.report.registry import write_report
from triage.report.watch import WatchedNight, WatchReport

_TICK = 0.5  # seconds between two looks at the journal
_FRAME = 8  # lines of the screen beside the failures
_KEYS = "up/down: choose a failure, enter: its log, q: end"
_LOG_KEYS = "up/down: scroll, esc: back, q: end"


@command
def watch(
    context: typer.Context,  # noqa: ARG001 - every command has it
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of `triage nightly --out`.")] = Path("out"),
    output: Annotated[str, format_option(WatchReport, only=("text", "json"))] = "text",
) -> Exit:
    """Follow a nightly that runs, or look at one that has ended.

    Shows what runs, the number of cases by state and the newest failures; a key opens the log of a failure. Without a
    terminal it prints a line for each failure and phase, and the state at the end. With `--format json` it prints the state
    at this moment.

    - `triage watch out` in another terminal follows `triage nightly recipes/ --out out`
    """
    night = WatchedNight(folder)
    events = night.read()
    if output == "json":
        write_report(WatchReport(night), output)
    elif sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM") != "dumb":
        _follow_on_screen(night)
    else:
        _follow_in_lines(night, events)
    return Exit.OK


def _follow_in_lines(night: WatchedNight, events: Sequence[object]) -> None:
    """Print a line for each failure of the new toolchain and for each phase until the night ends."""
    shown: set[tuple[str, str]] = set()
    phase = ""
    while True:
        if night.phase != phase:
            phase = night.phase
            typer.echo(phase)
        for probe in reversed(night.failures):
            if (probe.case, probe.revision) not in shown:
                shown.add((probe.case, probe.revision))
                typer.echo(f"  {probe.case}  {probe.class_}: {probe.text}")
        sys.stdout.flush()
        if not events and night.state != "running":
            break
        if not events:
            time.sleep(_TICK)
        events = night.read()
    write_report(WatchReport(night), "text")


def _follow_on_screen(night: WatchedNight) -> None:
    """Draw the state until the user ends it."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from triage.report.formats import console_for

    chosen, log, top = 0, None, 0
    console = console_for(sys.stdout)
    with _raw_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            night.read()
            rows = max(3, shutil.get_terminal_size().lines - _FRAME)
            failures = night.failures
            chosen = max(0, min(chosen, len(failures) - 1))
            if log is None:
                blocks = [*WatchReport(night, chosen, rows).blocks(), Text(_KEYS, style="dim")]
            else:
                top = max(0, min(top, len(log) - rows))
                blocks = [*map(Text, log[top : top + rows]), Text(_LOG_KEYS, style="dim")]
            live.update(Group(*blocks), refresh=True)
            match _key():
                case "q" | "\x03" | "\x04":
                    return
                case "\x1b":
                    log = None
                case "up" | "k":
                    chosen, top = (chosen - 1, top) if log is None else (chosen, top - 1)
                case "down" | "j":
                    chosen, top = (chosen + 1, top) if log is None else (chosen, top + 1)
                case "\r" | "\n" | "l" if failures and log is None:
                    log, top = night.log(failures[chosen]).splitlines() or ["(empty)"], 0


@contextmanager
def _raw_keys() -> Iterator[None]:
    """Read keys without echo and without waiting for a line."""
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _key() -> str | None:
    """Return the next key; None when there is none for a while."""
    number = sys.stdin.fileno()
    if not select.select([number], [], [], _TICK)[0]:
        return None
    data = os.read(number, 8).decode("utf-8", "replace")
    return {"\x1b[A": "up", "\x1b[B": "down", "": "q"}.get(data, data[:1])
