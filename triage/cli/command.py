"""Make functions commands: declare their options, show progress and messages on stderr,
write their reply in the format of --format, print their errors, and end with the exit
code of the reply.

Every error ends in a message on stderr, never in a traceback that a CI job takes for a
regression.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_type_hints

import typer

from triage.cli import stop_at_once
from triage.model.errors import BadFiles, Interrupted, TriageError
from triage.model.outcome import Exit
from triage.report.document import (
    FORMATS,
    VERBOSE,
    Block,
    Document,
    Table,
    write_report,
)
from triage.report.printable import printable
from triage.toolchains.home import Progress, Update, disk_errors

R = TypeVar("R")
_SAME_SIGNAL = 0.3  # seconds within which a second signal belongs to the first
_HANDLING = 0.1  # seconds in which the main thread handles a signal, unless it waits
RECIPES = (".yaml", ".yml")
SECONDS = 60.0  # for which each probe of a time is measured at most
_FIRST_LINE = 1.0  # seconds until a log says what runs
_LOG_INTERVAL = 10.0  # seconds between two lines in a log


def print_stderr(text: str) -> None:
    """Print one message to stderr."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


@dataclass(frozen=True)
class AppContext:
    """The options that hold for every command."""

    quiet: bool
    verbose: bool
    run_code: bool

    def note(self, text: str) -> None:
        """Print a line to stderr, unless only errors are wanted."""
        if not self.quiet:
            print_stderr(text)

    def progress(self) -> Progress:
        """Return what shows progress on stderr: bars on a terminal, lines in a log, or
        only errors.
        """
        if self.quiet:
            return Errors()
        if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            return LogLines()
        return LiveBars()


class Errors(Progress):
    """No progress, only errors."""

    def error(self, text: str) -> None:
        print_stderr(text)


class LogLines(Errors):
    """Progress as occasional lines, for CI logs and pipes."""

    def __init__(self) -> None:
        self.next = time.monotonic() + _FIRST_LINE

    @contextmanager
    def task(self, text: str, total: float | None = None) -> Iterator[Update]:
        done = 0.0

        def show(now: str = "", amount: float = 0.0) -> None:
            nonlocal text, done
            text = now or text
            done += amount
            if time.monotonic() >= self.next:
                self.next = time.monotonic() + _LOG_INTERVAL
                is_count = total and total != 1
                print_stderr(f"{text}  {done:g}/{total:g}" if is_count else text)

        first = threading.Timer(_FIRST_LINE, show)
        first.daemon = True
        first.start()
        try:
            yield show
        finally:
            first.cancel()

    def note(self, text: str) -> None:
        print_stderr(text)


class LiveBars(Progress):
    """Bars on a terminal, removed when nothing is running."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from triage.report.terminal import console_for

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(12), TimeElapsedColumn())
        self.bars = Progress(*columns, console=console_for(sys.stderr), transient=True)

    @contextmanager
    def task(self, text: str, total: float | None = None) -> Iterator[Update]:
        self.bars.start()
        number = self.bars.add_task(text, total=total)
        try:
            yield lambda text, amount: self.bars.update(
                number, description=text, advance=amount
            )
        finally:
            self.bars.remove_task(number)
            if not self.bars.tasks:
                self.bars.stop()

    def note(self, text: str) -> None:
        self.bars.console.print(text)

    error = note


@dataclass(frozen=True)
class Reply:
    """What a command returns."""

    write: Callable[[str], object]
    """Writes it to stdout in the named format."""
    exit: Exit = Exit.OK
    error: BaseException | None = None
    """Why the command ended early; it is printed after the reply."""


def report(
    result: R,
    document: Callable[[R], Document],
    code: Exit | None = None,
    **formats: Callable[[R], str],
) -> Reply:
    """Return the reply that is a result. code: instead of `exit` of the result.
    formats: those that only this result has.
    """
    if code is None:
        code = getattr(result, "exit", Exit.OK)
    return Reply(lambda name: write_report(name, result, document, **formats), code)


def report_value(
    value: object, *blocks: Block, title: str = "triage", code: Exit = Exit.OK
) -> Reply:
    """Return the reply that is a value for JSON, and a few lines for the rest."""
    return report(value, lambda _: Document(title, blocks), code)


def report_rows(
    key: str,
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[str],
    code: Exit = Exit.OK,
    **more: object,
) -> Reply:
    """Return the reply that is rows: in JSON below a key and next to `more`, else a
    table of some of their columns.
    """
    cells = [
        ["yes" if row[column] is True else str(row[column] or "") for column in columns]
        for row in rows
    ]
    table = Table(columns, cells)
    title = key.capitalize()
    return report_value({key: rows, **more}, table, title=title, code=code)


def argument(metavar: str, text: str, default: Any = ...) -> Any:
    """Return an argument."""
    return typer.Argument(default, metavar=metavar, help=text)


def flag(names: str, text: str) -> Any:
    """Return an option that is off unless it is given."""
    return typer.Option(False, *names.split("/"), help=text)  # noqa: FBT003 - its default


def option(
    metavar: str, text: str, *names: str, default: Any = ..., **checks: Any
) -> Any:
    """Return an option that takes a value. `names` are its spellings where they are not
    the parameter's name.
    """
    return typer.Option(default, *names, metavar=metavar, help=text, **checks)


def toolchain_option(text: str, default: Any = ...) -> Any:
    """Return the option --toolchain."""
    return option("REV", text, "--toolchain", "-t", default=default)


def _seconds(text: str) -> float:
    from triage.model.fields import parse_duration  # slow to import

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


# Takes a duration such as 45m, as seconds.
duration_option = functools.partial(option, "DURATION", default=None, parser=_seconds)
_FORMAT = ("--format", "-f")
PATHS = argument(
    "PATH", "Recipes, folders of recipes, programs, or texts such as a pasted issue."
)
RECIPE = argument(
    "RECIPE",
    "A recipe file, a program, FILE.py:KERNEL, a pasted issue, or a "
    "command line after --.",
)
SUITE = option(
    "FILE",
    "Read PATH as a test suite, with flags and known failures from this "
    "JSON file; repeatable (default: PATH holds recipes).",
    "--suite-config",
)
CASE = option("NAME", "Choose one case of a matrix by its name or by `key=value,...`.")
CASES = option(
    "TEXT",
    "Use only the case of this name, or those whose name contains this text or "
    "matches it, as `*_f16_*` (default: all).",
)
TOOLCHAINS = toolchain_option(
    "Compile with this toolchain; repeatable (default: the newest installed one)."
)
FAILING_TOOLCHAIN = toolchain_option("Toolchain on which the case fails.")
DRY_RUN = flag(
    "--dry-run", "Print what would be compiled; install and compile nothing."
)
REPO = option(
    "DIR",
    "Search commits and nightlies too, with this clone of the compiler "
    "(default: releases only).",
)
GITHUB = flag(
    "--github", "Annotate the GitHub Actions job, and write its summary and outputs."
)
OUT = option("DIR", "Write the reports to this folder (default: none).")
JOBS = option(
    "N",
    "Run at most N compiles at once (default: one per core).",
    "--jobs",
    "-j",
    min=1,
    max=1024,
)


def command(
    function: Callable[..., Reply], formats: Sequence[str] = ()
) -> Callable[..., None]:
    """Make a function a command: write the reply that it returns in the format of
    --format, end with its exit code, and print its errors.

    A parameter that is a dataclass stands for the options that are its fields, and
    `app` for the options of the program. formats: those that only this reply has.
    """
    names = [*FORMATS, *formats]
    text = "Print the report in this format."

    @functools.wraps(function)
    def run(context: typer.Context, output: str, **given: Any) -> None:
        if output not in names:
            problem = f"{output!r} is not one of {', '.join(names)}"
            raise typer.BadParameter(problem, param_hint=_FORMAT)
        if output == "text" and context.obj.verbose:
            output = VERBOSE
        more = ["--resume"] if given.get("interactive") else []
        given["app"] = context.obj
        raise typer.Exit(_run_and_reply(lambda: _call(function, given), output, more))

    shown = [
        *_options(function),
        _parameter("context", annotation=typer.Context),
        _parameter(
            "output",
            annotation=str,
            default=option("|".join(names), text, *_FORMAT, default="text"),
        ),
    ]
    run.__annotations__ = {}  # typer prefers these
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return run


junit_command = functools.partial(command, formats=["junit"])
_parameter = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)


def _options(function: Callable[..., object]) -> Iterator[inspect.Parameter]:
    """Yield the options of a function, or those that are the fields of a dataclass. One
    without a default is required, unless its type has None.
    """
    hints = get_type_hints(function)
    groups = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        declared = parameter.default
        if kind is not AppContext and is_dataclass(kind):
            groups.append(hints[name])
        elif name != "app":
            if isinstance(kind, UnionType) and declared.default is ...:
                declared.default = None
            yield _parameter(name, annotation=kind, default=declared)
    for group in groups:
        yield from _options(group)


def _call(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function with its options and the dataclasses that stand for some."""
    hints = get_type_hints(function)
    values = {
        name: given[name] if name in given else _call(hints[name], given)
        for name in inspect.signature(function).parameters
    }
    return function(**values)


def continuing_command(*more: str) -> str:
    """Return the command line that continues this run, with more options."""
    words = sys.argv[1:]
    end = [*words, "--"].index("--")
    # fresh results are cached, too
    options = [word for word in words[:end] if word not in ("--fresh", *more)]
    return shlex.join(["triage", *options, *more, *words[end:]])


def _run_and_reply(call: Callable[[], Reply], output: str, more: list[str]) -> int:
    """Call a command, write its reply in the named format, and return its exit code.
    more: options that continue it.
    """
    try:
        _handle_signals()
        with disk_errors("continue"):
            reply = call()
            reply.write(output)
            sys.stdout.flush()
            if reply.error:
                raise reply.error  # noqa: TRY301 - is printed as all errors are
            return reply.exit
    except BrokenPipeError:
        # The reader has closed the pipe; without this Python complains when it closes
        # the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (KeyboardInterrupt, Interrupted):
        again = continuing_command(*more)
        print_stderr(f"stopped; finished work is cached. To continue:\n  {again}")
        return Exit.INTERRUPTED
    except TriageError as error:
        name = "" if isinstance(error, BadFiles) else "triage: "
        print_stderr(f"{name}{error}")
        return error.exit_code
    except OSError as error:  # of a library
        print_stderr(f"triage: {error}")
    except Exception:
        print_stderr(traceback.format_exc())
        print_stderr(
            "triage: internal error; this is a bug in triage, not in the compiler"
        )
    return Exit.ENVIRONMENT


def _handle_signals() -> None:
    """From now on, end on Ctrl-C and on SIGTERM, which a cancelled CI job sends, with
    no compiler left running.

    A second signal ends the program at once; the watchdog of `processes.containment`
    then ends the compilers. Programs such as `timeout` send each signal twice, so that
    one which follows immediately does not count.

    Only the main thread handles signals. One that another thread receives does not end
    the wait of the main thread, and a compile may take minutes: a thread sends it on.
    """
    first: list[float] = []  # when the first signal arrived

    def on_signal(_: int, __: object) -> None:
        if not first:
            first.append(time.monotonic())
            processes = sys.modules.get("triage.processes.process")
            if processes is not None:
                # other threads may wait for them, and this one for the threads
                processes.interrupt_all()
            raise KeyboardInterrupt
        if time.monotonic() - first[0] > _SAME_SIGNAL:
            # a progress bar hides the cursor
            os.write(2, b"\x1b[?25h" if os.isatty(2) else b"")
            os._exit(130)

    def forward_signals() -> None:
        while not first:
            number = os.read(arrived, 1)[0]
            time.sleep(_HANDLING)
            if number in handled and not first:
                signal.pthread_kill(main_thread, number)

    handled = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is stop_at_once  # `main` was called
    ]
    for number in handled:
        signal.signal(number, on_signal)
    if handled:
        main_thread = threading.get_ident()
        arrived, arrival = os.pipe()
        os.set_blocking(arrival, False)
        signal.set_wakeup_fd(arrival, warn_on_full_buffer=False)
        threading.Thread(target=forward_signals, daemon=True).start()
