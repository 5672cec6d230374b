"""Make functions commands: declare their options, write their reply in the format of
--format, print their errors, and end with the exit code of the reply.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_type_hints

import typer

from triage.cli import stop_at_once
from triage.cli.screen import print_stderr
from triage.model.errors import BadFiles, Interrupted, TriageError
from triage.model.outcome import Exit
from triage.report.document import Block, Document, Table
from triage.report.formats import FORMATS, VERBOSE, write_report

R = TypeVar("R")
_SAME_SIGNAL = 0.3  # seconds within which a second signal belongs to the first
_HANDLING = 0.1  # seconds in which the main thread handles a signal, unless it waits
RECIPES = (".yaml", ".yml")
SECONDS = 60.0  # for which each probe of a time is measured at most
REQUIRED: Any = ...


@dataclass(frozen=True)
class Reply:
    """What a command returns."""

    write: Callable[[str], object]
    """Writes it to stdout in the named format."""
    exit: Exit = Exit.OK


class Unfinished(Exception):
    """A command cannot go on. Its reply so far is written before the error."""

    def __init__(self, reply: Reply, error: BaseException) -> None:
        self.reply, self.error = reply, error


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
    table, title = Table(columns, cells), key.capitalize()
    return report_value({key: rows, **more}, table, title=title, code=code)


def argument(metavar: str, text: str, default: Any = REQUIRED) -> Any:
    """Return an argument."""
    return typer.Argument(default, metavar=metavar, help=text)


def flag(names: str, text: str) -> Any:
    """Return an option that is off unless it is given."""
    return typer.Option(False, *names.split("/"), help=text)  # noqa: FBT003 - its default


def option(
    metavar: str, text: str, *names: str, default: Any = None, **checks: float
) -> Any:
    """Return an option that takes a value. `names` are its spellings where they are not
    the parameter's name.
    """
    return typer.Option(default, *names, metavar=metavar, help=text, **checks)  # type: ignore[arg-type]


def toolchain_option(text: str, default: Any = None) -> Any:
    """Return the option --toolchain."""
    return option("REV", text, "--toolchain", "-t", default=default)


def duration_option(text: str) -> Any:
    """Return an option that takes a duration such as 45m, as seconds."""
    return typer.Option(None, metavar="DURATION", parser=_seconds, help=text)


def _seconds(text: str) -> float:
    from triage.model.fields import parse_duration  # slow to import

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def format_option(*more: str) -> Any:
    """Return the option --format. more: formats that only this reply has."""
    names = (*FORMATS, *more)

    def check(name: str) -> str:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}")
        return name

    return typer.Option(
        "text",
        "--format",
        "-f",
        metavar="|".join(names),
        callback=check,
        help="Print the report in this format.",
    )


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
FAILING_TOOLCHAIN = toolchain_option("Toolchain on which the case fails.", REQUIRED)
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
    "Run at most N compiles at once (default: one per core, as memory allows).",
    "--jobs",
    "-j",
    min=1,
    max=1024,
)


def command(function: Callable[..., Reply], *formats: str) -> Callable[..., None]:
    """Make a function a command: write the reply that it returns in the format of
    --format, end with its exit code, and print its errors.

    A parameter that is a dataclass stands for the options that are its fields, and
    `app` for the options of the program. formats: those that only this reply has.
    """
    parameters = _parameters(function)
    groups = {
        name: _parameters(parameter.annotation)
        for name, parameter in parameters.items()
        if is_dataclass(parameter.annotation) and name != "app"
    }
    shown = dict(parameters)
    for name, fields in groups.items():
        del shown[name]
        shown |= fields
    shown.pop("app", None)
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = {
        "context": inspect.Parameter("context", keyword, annotation=typer.Context),
        "output": inspect.Parameter(
            "output", keyword, annotation=str, default=format_option(*formats)
        ),
    }

    @functools.wraps(function)
    def run(context: typer.Context, output: str, **given: Any) -> None:
        given["app"] = context.obj
        for name, fields in groups.items():
            group = parameters[name].annotation
            given[name] = group(**{field: given[field] for field in fields})
        values = {name: given[name] for name in parameters}
        if output == "text" and context.obj.verbose:
            output = VERBOSE
        more = ["--resume"] if given.get("interactive") else []
        raise typer.Exit(_exit_code(lambda: function(**values), output, more))

    run.__annotations__ = {}  # typer prefers these
    run.__signature__ = inspect.Signature([*shown.values(), *own.values()])  # type: ignore[attr-defined]
    return run


def junit_command(function: Callable[..., Reply]) -> Callable[..., None]:
    """Make a function a command whose reply also has the format junit."""
    return command(function, "junit")


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function, or the fields of a dataclass."""
    hints = get_type_hints(function)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return {
        name: parameter.replace(kind=keyword, annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    }


def command_again(*more: str) -> str:
    """Return the command line that continues this run, with more options."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    # fresh results are cached, too
    options = [word for word in words[:end] if word not in ("--fresh", *more)]
    return shlex.join(["triage", *options, *more, *words[end:]])


def _exit_code(call: Callable[[], Reply], output: str, more: list[str]) -> int:
    """Call a command, write its reply in the named format, and return its exit code.
    more: options that continue it.
    """
    from triage.toolchains.home import disk_errors

    try:
        _handle_signals()
        with disk_errors("continue"):
            try:
                reply = call()
            except Unfinished as unfinished:
                unfinished.reply.write(output)
                raise unfinished.error from None
            reply.write(output)
            sys.stdout.flush()
            return reply.exit
    except BrokenPipeError:
        # The reader has closed the pipe; without this Python complains when it closes
        # the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (KeyboardInterrupt, Interrupted):
        again = command_again(*more)
        print_stderr(f"stopped; finished work is cached. To continue:\n  {again}")
        return Exit.INTERRUPTED
    except TriageError as error:
        name = "" if isinstance(error, BadFiles) else "triage: "
        print_stderr(f"{name}{error}")
        return error.exit_code
    except OSError as error:
        file = f": {error.filename}" if error.filename else ""
        print_stderr(f"triage: {error.strerror or error}{file}")
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

    def send_on() -> None:
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
        threading.Thread(target=send_on, daemon=True).start()
