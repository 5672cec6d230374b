"""The program `triage`: its table of commands, its global options and its entry point.

A command's module is imported when the command is called, so that `triage --help`
imports none of them.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from triage.cli.command import AppContext, flag
from triage.model.outcome import MEANINGS
from triage.processes.sealing import switch_sealing
from triage.report.printable import PrintedStream

_SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
# before or after the command
_GLOBAL = ("-q", "--quiet", "-v", "--verbose", "--unsealed", "--run-code")

_TABLE = Path(__file__).with_name("commands.txt").read_text("utf-8")
#: Where each command is defined, `-` for a group, and its line in `--help`.
COMMANDS: Mapping[str, Sequence[str]] = {
    name: rest for name, *rest in (re.split("  +", row) for row in _TABLE.splitlines())
}
_STUBS: Mapping[str, Any] = {
    name: TyperCommand(name, help=summary) for name, (_, summary) in COMMANDS.items()
}


def load(name: str) -> Any:
    """Import a command and return it, or return a group, which imports none."""
    location, summary = COMMANDS[name]
    if location == "-":
        members = {
            word.removeprefix(f"{name} "): stub
            for word, stub in _STUBS.items()
            if word.startswith(f"{name} ")
        }
        return TyperGroup(
            help=summary, commands=members, no_args_is_help=True, rich_markup_mode=None
        )
    parent = typer.Typer(**_SETTINGS)
    parent.command(name)(resolve_name(f"triage.cli.{location}"))
    loaded: Any = typer.main.get_group(parent).commands[name]
    for parameter in loaded.params:
        if parameter.param_type_name == "argument":  # a type such as <list[Path]>
            parameter.display_type_rich = lambda *_, **__: None
    return loaded


@dataclass
class _ValueReader:
    """Reads the value of one option or argument: texts and paths as they are.

    Typer makes a schema of pydantic for each option, also for those that are not given,
    which takes longer than to import typer.
    """

    described: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = self.described.annotation
        if value is None:
            if param.multiple or param.nargs == -1:
                return ()
            return None
        if value is param.default or kind in (str, list[str]):
            return value
        if kind is Path:
            return Path(value)
        if kind == list[Path]:
            return list(map(Path, value))
        from typer._coercion import build_runtime_param

        return build_runtime_param(self.described).coerce(value, param, ctx)


typer.core.build_runtime_param = _ValueReader  # type: ignore[assignment,attr-defined]


class LazyGroup(TyperGroup):
    """A group that knows its commands by their summaries and imports the one that is
    called.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _STUBS})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        groups = [name for name, (location, _) in COMMANDS.items() if location == "-"]
        return [name for name in COMMANDS if name.rpartition(" ")[0] not in groups]

    def main(self, *words: Any, **settings: Any) -> Any:
        with (
            redirect_stdout(PrintedStream(sys.stdout)),
            redirect_stderr(PrintedStream(sys.stderr)),
        ):
            return super().main(*words, **settings)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = [*args, "--"].index("--")
        # global options may follow the command
        first = [word for word in args[:end] if word in _GLOBAL]
        others = [word for word in args[:end] if word not in _GLOBAL]
        last = args[end:]
        # one command line in the place of a recipe, instead of paths
        if any(word.startswith("-") for word in last[1:]):
            last = ["--", shlex.join(last[1:])]
        return super().parse_args(ctx, [*first, *others, *last])

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        two_words = " ".join(args[:2])
        if two_words in COMMANDS:
            args = [two_words, *args[2:]]
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else None, rest


_CODES = "; ".join(f"{int(code)} {meaning}" for code, meaning in MEANINGS.items())
app = typer.Typer(
    name="triage",
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Exit codes: {_CODES}.",
    **_SETTINGS,
)


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Import all commands; yield each that can be run, with the words that call it."""
    for name, (location, _) in COMMANDS.items():
        if location != "-":
            yield tuple(name.split()), load(name)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"triage {version('iree-triage')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    _version: bool = typer.Option(
        False,  # noqa: FBT003 - its default
        "--version",
        help="Print the version and exit.",
        callback=_print_version,
        is_eager=True,
    ),
    quiet: bool = flag("--quiet/-q", "Print no progress, only errors."),
    verbose: bool = flag("--verbose/-v", "Show all details of each failure."),
    unsealed: bool = flag(
        "--unsealed",
        "Let compiles read and write all that you can (default: only what they need).",
    ),
    run_code: bool = flag(
        "--run-code",
        "Run the Python of a pasted text where it cannot be sealed (default: ask "
        "on a terminal).",
    ),
) -> None:
    """Find out why a compiler fails on your model, since which release, and whether the
    failure is known.

    A recipe (YAML) says what to compile; `triage recipe new` writes one and `triage
    init` a folder of examples. Results are cached, so an interrupted command continues
    where it stopped. The report goes to stdout, progress to stderr. These options may
    stand before or after the command.
    """
    context.obj = AppContext(quiet, verbose, run_code)
    switch_sealing(on=not unsealed)
