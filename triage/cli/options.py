"""Options and arguments that several commands share, alone and in groups.

A group is a dataclass. A command takes it as one parameter, and `exit_codes.command`
shows its fields as options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.cli.screen import AppContext
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failure
from triage.report.formats import FORMATS, VERBOSE

if TYPE_CHECKING:  # what compiles is imported when a command loads its cases
    from triage.cli.program import StartedRecipe
    from triage.execution.engine import Engine
    from triage.execution.match import Match

RECIPES = (".yaml", ".yml")
SECONDS = 60.0  # for which each probe of a time is measured at most


def argument(metavar: str, text: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text)


def flag(name: str, text: str) -> Any:
    """Return an option that is on or off."""
    return typer.Option(*name.split("/"), help=text)


def option(metavar: str, text: str, *names: str, **checks: float) -> Any:
    """Return an option that takes a value. `names` are its spellings where they are not
    the parameter's name.
    """
    return typer.Option(*names, metavar=metavar, help=text, **checks)  # type: ignore[arg-type]


def toolchain_option(text: str) -> Any:
    """Return the option --toolchain."""
    return option("REV", text, "--toolchain", "-t")


def duration_option(text: str) -> Any:
    """Return an option that takes a duration such as 45m, as seconds."""

    def seconds(value: str) -> float:
        from triage.model.checks import parse_duration  # slow to import

        try:
            return parse_duration(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.Option(metavar="DURATION", parser=seconds, help=text)


def format_option(*more: str) -> Any:
    """Return the `--format` option of a command. more: formats that only its result
    has. Another format is refused before the command does anything.
    """
    names = (*FORMATS, *more)

    def check(context: typer.Context, name: str) -> str:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}")
        app = context.obj
        if name == "text" and isinstance(app, AppContext) and app.verbose:
            return VERBOSE
        return name

    return typer.Option(
        "--format",
        "-f",
        metavar="|".join(names),
        callback=check,
        help="Print the report in this format.",
    )


RecipePaths = Annotated[
    list[Path],
    argument(
        "PATH",
        "Recipes, folders of recipes, programs, or texts such as a pasted issue.",
    ),
]
SuiteOption = Annotated[
    list[Path] | None,
    option(
        "FILE",
        "Read PATH as a test suite, with flags and known failures from this "
        "JSON file; repeatable (default: PATH holds recipes).",
        "--suite-config",
    ),
]
OneCaseOption = Annotated[
    str | None,
    option("NAME", "Choose one case of a matrix by its name or by `key=value,...`."),
]
CasesOption = Annotated[
    str | None,
    option(
        "TEXT",
        "Use only cases whose name contains this text or matches it, as `*_f16_*` "
        "(default: all).",
    ),
]
ToolchainsOption = Annotated[
    list[str] | None,
    toolchain_option(
        "Compile with this toolchain; repeatable (default: the newest installed one)."
    ),
]
DryRunOption = Annotated[
    bool,
    flag("--dry-run", "Print what would be compiled; install and compile nothing."),
]
RepoOption = Annotated[
    Path | None,
    option(
        "DIR",
        "Search commits and nightlies too, with this clone of the compiler "
        "(default: releases only).",
    ),
]
GitHubOption = Annotated[
    bool,
    flag(
        "--github",
        "Annotate the GitHub Actions job, and write its summary and outputs.",
    ),
]
OutOption = Annotated[
    Path | None, option("DIR", "Write the reports to this folder (default: none).")
]
JobsOption = Annotated[
    int | None,
    option(
        "N",
        "Run at most N compiles at once (default: one per core, as memory allows).",
        "--jobs",
        "-j",
        min=1,
        max=1024,
    ),
]
FormatOption = Annotated[str, format_option()]
JUnitFormatOption = Annotated[str, format_option("junit")]


@dataclass(kw_only=True)
class ProgramTarget:
    """The target of a program that stands in the place of a recipe."""

    app: AppContext
    backend: Annotated[
        str | None,
        option("NAME", "Compile a program for this backend (a recipe names its own)."),
    ] = None
    chip: Annotated[
        str | None, option("NAME", "Compile a program for this chip, such as gfx942.")
    ] = None

    def started(self, words: Sequence[Path]) -> dict[Path, StartedRecipe]:
        """Write recipes for the programs, texts and command lines among the words."""
        programs = [
            word for word in words if not word.is_dir() and word.suffix not in RECIPES
        ]
        if not programs:
            if self.backend or self.chip:
                raise BadInput("--backend and --chip are for programs, not for recipes")
            return {}
        from triage.cli.program import recipe_for  # slow to import

        return {word: recipe_for(str(word), self) for word in programs}

    def recipes(self, words: Sequence[Path]) -> list[Path]:
        """Return the recipes that the words name, or that are made from them."""
        started = self.started(words)
        return [started[word].path if word in started else word for word in words]

    def cases(
        self, words: Sequence[Path], suite: Sequence[Path] | None = None
    ) -> tuple[Case, ...]:
        """Load all cases. suite: the configs of a test suite."""
        from triage.cli.context import cases_in

        return cases_in(words if suite else self.recipes(words), suite)


@dataclass(kw_only=True)
class SeveralCases(ProgramTarget):
    """The cases of recipes."""

    paths: RecipePaths
    case: CasesOption = None

    def load(self, suite: Sequence[Path] | None = None) -> tuple[Case, ...]:
        """Load the cases that --case selects."""
        from triage.cli.context import cases_named

        return cases_named(self.cases(self.paths, suite), self.case)


@dataclass(kw_only=True)
class OneCase(ProgramTarget):
    """One case of a recipe."""

    recipe: Annotated[
        Path,
        argument(
            "RECIPE",
            "A recipe file, a program, FILE.py:KERNEL, a pasted issue, or a "
            "command line after --.",
        ),
    ]
    case: OneCaseOption = None

    def load(self, suite: Sequence[Path] | None = None) -> Case:
        """Load the case that --case selects."""
        from triage.cli.context import one_case

        return one_case(self.cases([self.recipe], suite), self.case)


@dataclass(kw_only=True)
class Compiling:
    """How many compiles run at once, and where."""

    app: AppContext
    jobs: JobsOption = None
    executor: Annotated[
        str | None,
        option(
            "local|dask|dask:ADDRESS",
            "Compile here, on Dask workers started here, or on those of a "
            "scheduler (default: local).",
        ),
    ] = None

    def open(
        self, *cases: Case, fresh: bool = False, dry: bool = False
    ) -> AbstractContextManager[Engine]:
        from triage.cli.context import open_engine_for

        return open_engine_for(
            self.app, cases, self.jobs, self.executor, fresh=fresh, dry=dry
        )


class FailureMatch(StrEnum):
    """A rule that says which failures are the same."""

    SIGNATURE = "signature"
    CLASS = "class"
    FAMILY = "family"
    ANY = "any"

    @property
    def rule(self) -> Callable[[Failure], Match]:
        """The function that makes, of a failure, the test whether another is the
        same.
        """
        from triage.execution import match

        if self is FailureMatch.ANY:
            return lambda _: match.any_failure
        rule: Callable[[Failure], Match] = getattr(match, f"same_{self.value}")
        return rule
