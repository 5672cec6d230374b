"""Options and arguments that several commands share. Groups of them are in `cases`."""

from __future__ import annotations

from typing import Any

import typer

from triage.report.formats import FORMATS

RECIPES = (".yaml", ".yml")
SECONDS = 60.0  # for which each probe of a time is measured at most
REQUIRED: Any = ...


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
    """Return the option --format. more: formats that only this answer has."""
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
