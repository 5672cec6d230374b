"""Options and arguments that several commands share, alone and in groups.

A group is a dataclass. A command takes it as one parameter, and `exit_codes.command`
shows its fields as options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.cli.screen import AppContext
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
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


def flag(text: str, *names: str) -> Any:
    """Return an option that is on or off. Without a second name it cannot be switched
    off.
    """
    return typer.Option(*names, metavar="", help=text)


def option(
    text: str,
    *names: str,
    metavar: str | None = "TEXT",
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Return an option that takes a value. `names` are its spellings where they are not
    the parameter's name.
    """
    numeric = least is not None or most is not None
    return typer.Option(
        *names, metavar="N" if numeric else metavar, help=text, min=least, max=most
    )


def rev_option(text: str, *names: str) -> Any:
    """Return an option that takes a REV."""
    return option(text, *names, metavar="REV")


def duration_option(text: str) -> Any:
    """Return an option that takes a duration such as 45m or 90d, as seconds."""

    def seconds(value: str) -> float:
        from triage.model.checks import parse_duration  # slow to import

        try:
            if re.fullmatch(r"\d{1,5}d", value):
                return int(value[:-1]) * 86400.0
            return parse_duration(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.Option(metavar="DURATION", parser=seconds, help=text)


def clone_option(text: str) -> Any:
    """Return the option that names a clone. Another folder is refused before anything
    is compiled.
    """

    def check(path: Path | None) -> Path | None:
        from triage.git_history.repository import Repository

        if path is None:
            return None
        try:
            Repository(path)
        except BadInput as error:
            raise typer.BadParameter(str(error)) from error
        except EnvironmentFailure:  # no git, which the command itself reports
            return path
        return path

    return typer.Option("--repo", metavar="DIR", callback=check, help=text)


def format_option(*more: str, only: tuple[str, ...] = ()) -> Any:
    """Return the `--format` option of a command. more: formats that only its result
    has; only: instead of all others.

    A format that is not available is refused before the command does anything.
    """
    names = only or (*FORMATS, *more)

    def check(context: typer.Context, name: str) -> str:
        if name not in names:
            raise typer.BadParameter(
                f"{name!r} is not available for this command; choose from "
                f"{', '.join(names)}"
            )
        if (
            name == "text"
            and isinstance(context.obj, AppContext)
            and context.obj.verbose
        ):
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
        "PATH...",
        "Recipes, folders of recipes, programs, or texts such as a pasted issue.",
    ),
]
SuiteOption = Annotated[
    list[Path] | None,
    option(
        "Read PATH as a test suite, with flags and known failures from this "
        "JSON file; repeatable (default: PATH holds recipes).",
        "--suite-config",
        metavar="FILE",
    ),
]
OneCaseOption = Annotated[
    str | None,
    option("Choose one case of a matrix by its name or by `key=value,...`.", "--case"),
]
CasesOption = Annotated[
    str | None,
    option(
        "Use only cases whose name contains this text or matches it, as `*_f16_*` "
        "(default: all).",
        "--case",
    ),
]
ToolchainsOption = Annotated[
    list[str] | None,
    rev_option(
        "Compile with this toolchain; repeatable (default: the newest installed one).",
        "--toolchain",
        "-t",
    ),
]
FreshOption = Annotated[
    bool, flag("Compile again instead of using cached results.", "--fresh")
]
DryRunOption = Annotated[
    bool,
    flag(
        "Print what is known and what would be compiled; install and compile nothing.",
        "--dry-run",
    ),
]
RepoOption = Annotated[
    Path | None,
    clone_option(
        "Search commits and nightlies too, with this clone of the compiler "
        "(default: releases only)."
    ),
]
ProjectOption = Annotated[
    Path | None,
    option(
        "Read in this file where toolchains of commits come from (default: "
        "triage.yaml, if any).",
        "--project",
        metavar="FILE",
    ),
]
GitHubOption = Annotated[
    bool,
    flag(
        "Annotate the GitHub Actions job, and write its summary and outputs.",
        "--github",
    ),
]
RunCodeOption = Annotated[
    bool,
    flag(
        "Run the Python code of a pasted text (default: ask on a terminal).",
        "--run-code",
    ),
]
FormatOption = Annotated[str, format_option()]
JUnitFormatOption = Annotated[str, format_option("junit")]


@dataclass(kw_only=True)
class ProgramOptions:
    """The target of a program that stands in the place of a recipe."""

    app: AppContext
    backend: Annotated[
        str | None,
        option("Compile a program for this backend (a recipe names its own)."),
    ] = None
    chip: Annotated[
        str | None, option("Compile a program for this chip, such as gfx942.")
    ] = None
    save: Annotated[
        Path | None,
        option(
            "Write the recipe that triage makes of a program to this file.",
            metavar="FILE",
        ),
    ] = None
    run_code: RunCodeOption = False

    @property
    def is_used(self) -> bool:
        """Whether the user names a target, or a file for the recipe."""
        return bool(self.backend or self.chip or self.save)

    def recipes(self, words: Sequence[Path]) -> list[Path]:
        """Return the recipes that the words name, and those made from programs, texts
        and command lines among them.
        """
        started = self.started(words)
        return [started[word].path if word in started else word for word in words]

    def started(self, words: Sequence[Path]) -> dict[Path, StartedRecipe]:
        """Write recipes for the programs, texts and command lines among the words."""
        made = [word for word in words if _is_program(word)]
        if not made and self.is_used:
            raise BadInput(
                "--backend, --chip and --save are for programs; a recipe has its own "
                "target"
            )
        if self.save and len(made) > 1:
            raise BadInput("--save keeps one recipe; name one program")
        if not made:  # slow to import
            return {}
        from triage.cli.program import recipe_for

        return {word: recipe_for(str(word), self) for word in made}

    def words(self, word: Path, started: StartedRecipe | None) -> list[str]:
        """Return what names a recipe, a program or a text on a command line."""
        if started and str(word) == "-":  # nobody can type the text again
            return [str(started.path)]
        words = [str(word)]
        if self.backend:
            words += ["--backend", self.backend]
        if self.chip:
            words += ["--chip", self.chip]
        if self.run_code:
            words.append("--run-code")
        return words


@dataclass(kw_only=True)
class SeveralCases:
    """The cases of recipes."""

    paths: RecipePaths
    case: CasesOption = None
    suite_config: SuiteOption = None
    program: ProgramOptions

    def load(self) -> tuple[Case, ...]:
        """Load the cases that --case selects."""
        return self.load_started()[0]

    def load_started(self) -> tuple[tuple[Case, ...], dict[Path, StartedRecipe]]:
        """Load these cases, and return the recipes made from programs and texts."""
        from triage.cli.context import cases_in, cases_named

        started = {} if self.suite_config else self.program.started(self.paths)
        paths = [started[path].path if path in started else path for path in self.paths]
        cases = cases_in(paths, self.suite_config)
        return cases_named(cases, self.case), started


def _is_program(word: Path) -> bool:
    return not word.is_dir() and word.suffix not in RECIPES


@dataclass(kw_only=True)
class CaseChoice:
    """Which case of a recipe, and how a program becomes one."""

    case: OneCaseOption = None
    suite_config: SuiteOption = None
    program: ProgramOptions

    def cases_of(self, recipe: Path) -> tuple[Case, ...]:
        from triage.cli.context import cases_in

        if self.suite_config:
            return cases_in([recipe], self.suite_config)
        return cases_in(self.program.recipes([recipe]), None)

    def case_of(self, recipe: Path) -> Case:
        """Load the case that --case selects."""
        from triage.cli.context import one_case

        return one_case(self.cases_of(recipe), self.case)


@dataclass(kw_only=True)
class OneCase(CaseChoice):
    """One case of a recipe."""

    recipe: Annotated[
        Path,
        argument(
            "RECIPE",
            "A recipe file, a program, FILE.py:KERNEL, a pasted issue, or a "
            "command line after --.",
        ),
    ]

    def load(self) -> Case:
        return self.case_of(self.recipe)

    def load_all(self) -> tuple[Case, ...]:
        return self.cases_of(self.recipe)

    def load_started(self) -> tuple[tuple[Case, ...], StartedRecipe | None]:
        """Load all cases, and return what their recipe was made from: a program, a text
        or a command line.
        """
        from triage.cli.context import cases_in

        if self.suite_config:
            return self.load_all(), None
        started = self.program.started([self.recipe]).get(self.recipe)
        path = started.path if started else self.recipe
        return cases_in([path], None), started


@dataclass(kw_only=True)
class OneCaseOrScript(CaseChoice):
    """One case of a recipe, which a script of the user's own may test."""

    recipe: Annotated[
        Path | None,
        argument(
            "[RECIPE]",
            "A recipe file, a program, FILE.py:KERNEL, a pasted issue, or a "
            "command line after --; not needed with --script.",
        ),
    ] = None
    script: Annotated[
        Path | None,
        option(
            "Test each compiler with this program instead: exit code 0 is good, 125 "
            "skips, any other fails. It gets the input, and the compiler in PATH and "
            "TRIAGE_TOOLCHAIN.",
            metavar="FILE",
        ),
    ] = None

    def load_for(self, family: Callable[[], str]) -> Case:
        """Load the case that --case selects, to be tested by the script if there is
        one. family: of a script without a recipe.
        """
        chosen = None
        if self.recipe is not None:
            chosen = self.case_of(self.recipe)
        if self.script is None:
            if chosen is None:
                raise BadInput("name a recipe or a program, or a test with --script")
            return chosen
        script = self.script.absolute()
        if not os.access(script, os.X_OK) or not script.is_file():
            raise BadInput(f"{self.script} is not a program: chmod +x {self.script}")
        if chosen is not None:
            return replace(chosen, script=script, run=None, benchmarks=())
        return Case(
            script.stem,
            script.stem,
            f"The test {script.name}",
            family(),
            script,
            Input(script, InputKind.OTHER),
            Target("host"),
            script=script,
        )


@dataclass(kw_only=True)
class Compiling:
    """How many compiles run at once, and where."""

    app: AppContext
    jobs: Annotated[
        int | None,
        option(
            "Run at most N compiles at once (default: one per core, as memory allows).",
            "--jobs",
            "-j",
            least=1,
            most=1024,
        ),
    ] = None
    executor: Annotated[
        str | None,
        option(
            "Compile here, on Dask workers started here, or on those of a "
            "scheduler (default: local).",
            metavar="local|dask|dask:ADDRESS",
        ),
    ] = None

    def open(self, *cases: Case, fresh: bool = False) -> AbstractContextManager[Engine]:
        from triage.cli.context import open_engine_for

        return open_engine_for(self.app, cases, self.jobs, self.executor, fresh=fresh)


class FailureMatch(StrEnum):
    """A rule that says which failures are the same."""

    SIGNATURE = "signature"
    CLASS = "class"
    FAMILY = "family"
    ANY = "any"


def match_by(kind: FailureMatch) -> Callable[[Failure], Match]:
    """Return the function that makes, of a failure, the test whether another one is the
    same.
    """
    from triage.execution import match

    known: dict[FailureMatch, Callable[[Failure], Match]] = {
        FailureMatch.SIGNATURE: match.same_signature,
        FailureMatch.CLASS: match.same_class,
        FailureMatch.FAMILY: match.same_family,
        FailureMatch.ANY: lambda _: match.any_failure,
    }
    return known[kind]
