"""The program `triage`: its table of commands, its global options and its entry point.

A command's module is imported when the command is called, so that `triage --help`
imports none of them.
"""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

import click

from triage.cli.command import flag, parameters
from triage.cli.screen import AppContext
from triage.model.outcome import MEANINGS
from triage.processes.sealing import switch_sealing
from triage.report.printable import printed_streams

# made before garbage is collected: more than a start makes, which nearly all stay
_OBJECTS = 100_000

#: Where each command is defined, and its line in `triage --help`.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "why": (
        "why:why",
        "Explain one failure: since when, where, and what helps.",
    ),
    "init": ("recipe:init", "Write a first folder of recipes to start from."),
    "run": (
        "run:run_cases",
        "Compile every case on every toolchain and report failures.",
    ),
    "classify": (
        "classify:classify",
        "Name the failures in compiler output or a CI log.",
    ),
    "history": (
        "run:history",
        "Find every change of each case's status across releases.",
    ),
    "nightly": (
        "nightly:nightly",
        "Compare a new compiler with a baseline over all recipes.",
    ),
    "nightly merge": (
        "nightly:nightly_merge",
        "Join the results of a nightly's shards.",
    ),
    "nights": ("nights:app", "List, show and prune stored nights."),
    "site": ("nights:site", "Write a static site of all stored nights."),
    "show": ("nights:show", "Show everything known of a case."),
    "bisect": (
        "bisect:bisect",
        "Find the release or commit that broke or fixed a case.",
    ),
    "suspects": (
        "bisect:suspects",
        "Rank the commits between two revisions; nothing is built.",
    ),
    "attribute": (
        "why:attribute_case",
        "Find the pass after which two compilers' IR diverges.",
    ),
    "reduce": (
        "reduce:reduce_recipe",
        "Reduce a failing program to a minimal reproducer.",
    ),
    "replay": (
        "reduce:replay_reproducers",
        "Check whether reproducers still fail.",
    ),
    "lint": ("remedy:lint", "Find mistakes in a program before it is compiled."),
    "remedy": (
        "remedy:remedy",
        "Find flags or input changes that make a case compile.",
    ),
    "bench": ("run:bench", "Measure the run time of compiled programs side by side."),
    "variants": ("remedy:variants", "Find which matrix values a failure depends on."),
    "toolchains": ("toolchains:app", "List, install, inspect and prune compilers."),
    "issues": (
        "nights:issues",
        "Keep the issues of a GitHub repository in step with nights.",
    ),
    "expect": ("recipe:expect", "Update the lists of known failures."),
    "recipe": ("recipe:app", "Write, validate and list recipes."),
    "doctor": ("toolchains:doctor", "Check what this machine has and what it lacks."),
}


def load(name: str) -> click.Command:
    """Import a command and return it."""
    loaded: click.Command = resolve_name(f"triage.cli.{COMMANDS[name][0]}")
    return loaded


class LazyGroup(click.Group):
    """A group that knows its commands by their summaries and imports the one that is
    called.
    """

    def main(self, *words: Any, **settings: Any) -> Any:
        with printed_streams():
            return super().main(*words, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        # options of the program may follow the command
        known = {name for param in self.params for name in param.opts}
        first = [word for word in args[:end] if word in known]
        others = [word for word in args[:end] if word not in known]
        return super().parse_args(ctx, [*first, *others, *args[end:]])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        two_words = " ".join(args[:2])
        if two_words in COMMANDS:
            args = [two_words, *args[2:]]
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else None, rest


def every_command() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Import all commands; yield each that can be run, with the words that call it."""
    for name in COMMANDS:
        loaded = load(name)
        if isinstance(loaded, click.Group):
            yield from (((name, word), leaf) for word, leaf in loaded.commands.items())
        else:
            yield tuple(name.split()), loaded


def options(
    quiet: bool = flag("Print no progress, only errors.", "--quiet", "-q"),
    verbose: bool = flag("Show all details of each failure.", "--verbose", "-v"),
    unsealed: bool = flag(
        "Let compiles read and write all that you can (default: only what they need)."
    ),
    run_code: bool = flag(
        "Run the Python of a pasted text where it cannot be sealed (default: ask "
        "on a terminal)."
    ),
) -> None:
    """Find out why a compiler fails on your model, since which release, and whether the
    failure is known.

    A recipe (YAML) says what to compile; `triage recipe new` writes one and `triage
    init` a folder of examples. Results are cached, so an interrupted command continues
    where it stopped. The report goes to stdout, progress to stderr. These options may
    stand before or after the command.
    """
    click.get_current_context().obj = AppContext(quiet, verbose, run_code)
    switch_sealing(on=not unsealed)


_CODES = "; ".join(f"{int(code)} {meaning}" for code, meaning in MEANINGS.items())
app = LazyGroup(
    "triage",
    commands={
        name: click.Command(name, help=summary)
        for name, (_, summary) in COMMANDS.items()
    },
    params=list(parameters(options)),
    callback=options,
    help=options.__doc__,
    epilog=f"Exit codes: {_CODES}.",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
click.version_option(package_name="iree-triage", message="%(prog)s %(version)s")(app)


def run_command_line() -> None:
    """Run the command that the words of the command line name."""
    gc.set_threshold(_OBJECTS)
    words = sys.argv[1:]
    end = words.index("--") + 1 if "--" in words else len(words)
    # one command line in the place of a recipe, instead of paths
    if any(word.startswith("-") for word in words[end:]):
        words[end:] = [shlex.join(words[end:])]
    app(words, prog_name="triage")
