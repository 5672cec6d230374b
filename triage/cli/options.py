"""Options and arguments that several commands share, alone and in groups.

A group is a dataclass. A command takes it as one parameter, and `exit_codes.command`
shows its fields as options.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from triage.cli.screen import AppContext
from triage.model.errors import BadInput
from triage.report.formats import FORMATS, VERBOSE

if TYPE_CHECKING:  # what compiles is imported when a command loads its cases
    from triage.cli.program import StartedRecipe
    from triage.execution.engine import Engine
    from triage.model.case import Case

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
    from triage.model.checks import parse_duration  # slow to import

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def format_option(*more: str, default: str = "text") -> Any:
    """Return the option --format. more: formats that only this result has."""
    names = (*FORMATS, *more)

    def check(context: typer.Context, name: str) -> str:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}")
        if name == "text" and context.obj.verbose:
            return VERBOSE
        return name

    return typer.Option(
        default,
        "--format",
        "-f",
        metavar="|".join(names),
        callback=check,
        help="Print the report in this format.",
    )


PATHS = argument(
    "PATH", "Recipes, folders of recipes, programs, or texts such as a pasted issue."
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
FORMAT = format_option()
JUNIT_FORMAT = format_option("junit")


@dataclass(kw_only=True)
class ProgramTarget:
    """The target of a program that stands in the place of a recipe."""

    app: AppContext
    backend: str | None = option(
        "NAME", "Compile a program for this backend (a recipe names its own)."
    )
    chip: str | None = option(
        "NAME", "Compile a program for this chip, such as gfx942."
    )

    def started(
        self, words: Sequence[Path], revs: Sequence[str | None] = ()
    ) -> dict[Path, StartedRecipe]:
        """Write recipes for the programs, texts and command lines among the words.
        `revs` may name the package that a script is about.
        """
        programs = [
            word for word in words if not word.is_dir() and word.suffix not in RECIPES
        ]
        if programs:
            from triage.cli.program import recipe_for  # slow to import

            return {word: recipe_for(str(word), self, revs) for word in programs}
        if self.backend or self.chip:
            raise BadInput("--backend and --chip are for programs, not for recipes")
        return {}

    def cases(
        self,
        words: Sequence[Path],
        suite: Sequence[Path] | None = None,
        revs: Sequence[str | None] = (),
    ) -> tuple[Case, ...]:
        """Load all cases. suite: the configs of a test suite."""
        from triage.cli.context import cases_in

        return cases_in(words if suite else self.recipes(words, revs), suite)

    def recipes(
        self, words: Sequence[Path], revs: Sequence[str | None] = ()
    ) -> list[Path]:
        """Return the recipes that the words name, or that are made from them."""
        started = self.started(words, revs)
        return [started[word].path if word in started else word for word in words]


@dataclass(kw_only=True)
class SeveralCases(ProgramTarget):
    """The cases of recipes."""

    paths: list[Path] = PATHS
    case: str | None = CASES

    def selected_cases(
        self, suite: Sequence[Path] | None = None, revs: Sequence[str | None] = ()
    ) -> tuple[Case, ...]:
        """Load the cases that --case selects."""
        from triage.cli.context import cases_named

        return cases_named(self.cases(self.paths, suite, revs), self.case)


@dataclass(kw_only=True)
class OneCase(ProgramTarget):
    """One case of a recipe."""

    recipe: Path = argument(
        "RECIPE",
        "A recipe file, a program, FILE.py:KERNEL, a pasted issue, or a "
        "command line after --.",
    )
    case: str | None = CASE

    def selected_case(
        self, suite: Sequence[Path] | None = None, revs: Sequence[str | None] = ()
    ) -> Case:
        """Load the case that --case selects."""
        from triage.cli.context import one_case

        return one_case(self.cases([self.recipe], suite, revs), self.case)


@dataclass(kw_only=True)
class Compiling:
    """How many compiles run at once, and where."""

    app: AppContext
    jobs: int | None = JOBS
    executor: str | None = option(
        "local|dask|dask:ADDRESS",
        "Compile here, on Dask workers started here, or on those of a "
        "scheduler (default: local).",
    )

    def open(
        self, *cases: Case, fresh: bool = False, dry: bool = False
    ) -> AbstractContextManager[Engine]:
        from triage.cli.context import open_engine_for

        return open_engine_for(
            self.app, cases, self.jobs, self.executor, fresh=fresh, dry=dry
        )
