"""The program `triage`: its table of commands, its global options and its entry point.

A command's module is imported when the command is called, so that `triage --help` imports none of them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from triage.cli.exit_codes import MEANINGS
from triage.cli.parameters import describe_parameters
from triage.cli.removed import REMOVED_COMMANDS, replacement
from triage.cli.screen import AppContext
from triage.report.printable import printable

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer has no public name for it
_SAME_SIGNAL = 0.3  # seconds within which a second signal belongs to the first
_SETTINGS: dict[str, Any] = {"rich_markup_mode": "markdown", "pretty_exceptions_enable": False}


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command of the program: where it is defined, and its line in `triage --help`."""

    module: str
    attribute: str
    summary: str

    def load(self, name: str) -> Any:
        """Import the command and return it."""
        target = getattr(import_module(self.module), self.attribute)
        parent = typer.Typer(add_completion=False, **_SETTINGS)
        if isinstance(target, typer.Typer):
            parent.add_typer(target, name=name)
            loaded: Any = cast(Any, typer.main.get_command(parent)).commands[name]
        else:
            parent.command(name)(target)
            loaded = typer.main.get_command(parent)
        for _, leaf in _leaves(name, loaded):
            describe_parameters(leaf)
        return loaded


COMMANDS: Mapping[str, CommandEntry] = {
    "init": CommandEntry("triage.cli.init", "init", "Write a first folder of recipes to start from."),
    "run": CommandEntry("triage.cli.run", "run", "Compile every case on every toolchain and report failures."),
    "classify": CommandEntry("triage.cli.classify", "classify", "Name the failures in compiler output or a CI log."),
    "history": CommandEntry("triage.cli.history", "history", "Find every change of each case's status across releases."),
    "nightly": CommandEntry("triage.cli.nightly", "nightly", "Compare a new compiler with a baseline over all recipes."),
    "nightly merge": CommandEntry("triage.cli.nightly_merge", "nightly_merge", "Join the results of a nightly's shards."),
    "nights": CommandEntry("triage.cli.nights", "app", "List, show and prune stored nights."),
    "site": CommandEntry("triage.cli.site", "site", "Write a static site of all stored nights."),
    "show": CommandEntry("triage.cli.show", "show", "Show everything known of a case."),
    "bisect": CommandEntry("triage.cli.bisect", "bisect", "Find the release or commit that introduced or fixed a failure."),
    "suspects": CommandEntry("triage.cli.suspects", "suspects", "Rank the commits between two revisions without building any."),
    "attribute": CommandEntry("triage.cli.attribute", "attribute", "Find the pass after which two compilers' IR diverges."),
    "reduce": CommandEntry("triage.cli.reduce", "reduce", "Reduce a failing program to a minimal reproducer."),
    "replay": CommandEntry("triage.cli.replay", "replay", "Check whether reproducers still fail, and on which versions."),
    "lint": CommandEntry("triage.cli.lint", "lint", "Find mistakes in a program before it is compiled."),
    "remedy": CommandEntry("triage.cli.remedy", "remedy", "Find flags or input changes that make a failing case compile."),
    "bench": CommandEntry("triage.cli.bench", "bench", "Measure the run time of compiled programs side by side."),
    "variants": CommandEntry("triage.cli.variants", "variants", "Find which matrix values a failure depends on."),
    "toolchains": CommandEntry("triage.cli.toolchains", "app", "List, install, inspect and prune compilers."),
    "issues": CommandEntry("triage.cli.issues", "app", "Keep the issues of a GitHub repository in step with nights."),
    "expect": CommandEntry("triage.cli.expect", "app", "Update the lists of known failures."),
    "recipe": CommandEntry("triage.cli.recipe", "app", "Write, validate and list recipes."),
    "doctor": CommandEntry("triage.cli.doctor", "doctor", "Check what this machine has and what it lacks."),
}


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Make the usage errors of typer safe to print: they quote arguments and reach the terminal as they are."""
    try:
        yield
    except _UsageError as error:
        shown: Any = error
        if instead := replacement(shown.ctx.info_name if shown.ctx else "", getattr(shown, "option_name", "")):
            shown.message = f"{shown.option_name} was removed: {instead}"
            shown.possibilities = None
        shown.message = printable(shown.message)
        raise


class LazyGroup(TyperGroup):
    """A group that knows its commands by their summaries and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        stubs = {name: TyperCommand(name, help=entry.summary) for name, entry in COMMANDS.items()}
        super().__init__(**{**settings, "commands": stubs})
        describe_parameters(self)

    def make_context(self, info_name: str | None, args: list[str], *values: Any, **settings: Any) -> Any:
        end = args.index("--") if "--" in args else len(args)
        words = [word for word in args[:end] if word not in ("-q", "--quiet")]
        quiet = ["--quiet"] if len(words) < end else []
        with _printable_errors():
            return super().make_context(info_name, [*quiet, *words, *args[end:]], *values, **settings)

    def invoke(self, ctx: Any) -> Any:
        with _printable_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        for words in (" ".join(args[:2]), args[0]):
            if words in COMMANDS:
                args = [words, *args[len(words.split()) :]]
                break
            if words in REMOVED_COMMANDS:
                raise typer.BadParameter(f"the command {words!r} was removed: {REMOVED_COMMANDS[words]}", ctx)
        name, _, rest = super().resolve_command(ctx, args)
        return name, COMMANDS[name].load(name) if name else None, rest


app = typer.Typer(
    name="triage",
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Exit codes: {'; '.join(f'{int(code)} {meaning}' for code, meaning in MEANINGS.items())}.",
    **_SETTINGS,
)


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Import all commands; yield each that can be run, with the words that call it."""
    for name, entry in COMMANDS.items():
        yield from _leaves(name, entry.load(name))


def _leaves(name: str, command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield tuple(name.split()), command
    else:
        yield from (((name, word), child) for word, child in children.items())


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"triage {version('iree-triage')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Suppress progress, before or after the command; errors are printed.")
    ] = False,
) -> None:
    """Find out why a compiler fails on your model, since which release, and whether the failure is known.

    A recipe (YAML) says what to compile; `triage recipe new` writes one and `triage init` a folder of examples. Results
    are cached, so an interrupted command continues where it stopped. The report goes to stdout, progress to stderr.
    """
    del version
    context.obj = AppContext(quiet=quiet)


def _handle_signals() -> None:
    """End on Ctrl-C and on SIGTERM, which a cancelled CI job sends, with no compiler left running.

    A second signal ends the program at once; the watchdog of `execution.process` then ends the compilers. Programs such as
    `timeout` send each signal twice, so that one which follows immediately does not count.

    Python runs a handler between two instructions of the main thread. If a signal arrives just before that thread blocks on a
    lock, the handler would have to wait for the lock; another thread therefore sends the signal again until it has run.
    """
    handled = threading.Event()
    first: list[float] = []  # when the first signal arrived
    main_thread = threading.main_thread().ident or 0

    def interrupt(_: int, __: FrameType | None) -> None:
        handled.set()
        if not first:
            first.append(time.monotonic())
            if (processes := sys.modules.get("triage.execution.process")) is not None:
                processes.interrupt_all()  # other threads may wait for them, and this one for the threads
            raise KeyboardInterrupt
        if time.monotonic() - first[0] > _SAME_SIGNAL:
            os.write(2, b"\x1b[?25h" if os.isatty(2) else b"")  # a progress bar hides the cursor
            os._exit(130)

    def send_again() -> None:
        while arrived := os.read(source, 64):
            sent_again = False
            while not handled.wait(0.2):
                signal.pthread_kill(main_thread, arrived[0])
                sent_again = True
            if sent_again:
                os.read(source, 64)  # the signals sent again are written here, too
            handled.clear()

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    threading.Thread(target=send_again, daemon=True).start()


def main() -> None:
    """Run the program."""
    try:
        _handle_signals()
    except RuntimeError as error:
        os.write(2, f"triage: this machine starts no more threads ({error}); end other programs or raise its limit\n".encode())
        sys.exit(4)
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"  # searching every installed package for plugins slows each start
    app(prog_name="triage")
