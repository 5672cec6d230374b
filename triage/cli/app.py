"""The program `triage`: its commands and its way of ending."""

from __future__ import annotations

import signal
from importlib.metadata import version
from types import FrameType
from typing import Annotated

import typer

from triage.cli import (
    attribute,
    bisect,
    classify,
    doctor,
    evidence,
    history,
    lint,
    nightly,
    recipe,
    reduce,
    remedy,
    replay,
    run,
    suspects,
    toolchains,
    variants,
)
from triage.cli.screen import set_quiet

app = typer.Typer(
    name="triage",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 nothing regressed, or found what was asked; 1 a regression or failure was found; 2 usage or "
    "bad input; 3 inconclusive; 4 the environment failed; 130 interrupted. The answer goes to stdout, progress to stderr.",
)
app.command("run")(run.run)
app.command("classify")(classify.classify)
app.command("history")(history.history)
app.command("nightly")(nightly.nightly)
app.command("bisect")(bisect.bisect)
app.command("suspects")(suspects.suspects)
app.command("attribute")(attribute.attribute)
app.command("reduce")(reduce.reduce)
app.command("lint")(lint.lint)
app.command("replay")(replay.replay)
app.command("remedy")(remedy.remedy)
app.command("variants")(variants.variants)
app.add_typer(toolchains.app, name="toolchains")
app.add_typer(recipe.app, name="recipe")
app.add_typer(evidence.app, name="evidence")
app.command("doctor")(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"triage {version('iree-triage')}")
        raise typer.Exit


@app.callback()
def options(
    shown: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr; errors still are told.")] = False,
) -> None:
    """Find out why a compiler fails on your model, since which release, and whether it is the failure you know.

    A recipe (YAML) says what to compile; `triage recipe new` writes one. Every result is kept, so that nothing is
    compiled twice and an interrupted command goes on where it stopped.
    """
    del shown
    set_quiet(quiet)


def _terminate(_: int, __: FrameType | None) -> None:
    """A cancelled CI job sends SIGTERM: end as with Ctrl-C, leaving no compiler behind."""
    raise KeyboardInterrupt


def main() -> None:
    """The entry point."""
    signal.signal(signal.SIGTERM, _terminate)
    app()
