"""Options and arguments that several commands share, alone and in groups.

A group is a dataclass. A command takes it as one parameter, and `exit_codes.command` shows its fields as options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from triage.cli.context import cases_named, load_cases, one_case, open_runner
from triage.cli.screen import AppContext
from triage.compilers.registry import DEFAULT_FAMILY, Families
from triage.execution.engine import Engine
from triage.execution.judge import Match, Metric, any_failure, same_class, same_family, same_signature
from triage.model.case import Case
from triage.model.errors import BadInput, TriageError
from triage.model.outcome import Failure
from triage.recipes.values import parse_duration
from triage.report.formats import FORMATS, VERBOSE
from triage.toolchains.home import home_path
from triage.toolchains.install import installed

SECONDS = 60.0  # for which each probe of a time is measured at most


def complete_revision(incomplete: str) -> list[str]:
    """Return the installed releases that begin with `incomplete`, newest first, those of other families with their prefix."""
    names = ["latest", "previous", "installed"]
    for family in Families().values():
        prefix = "" if family.name == DEFAULT_FAMILY else f"{family.name}:"
        releases = installed(home_path() / "toolchains", family.distribution, family.packaging)
        names += [f"{prefix}{release.version}" for release in reversed(releases)]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def complete_case(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of cases that begin with `incomplete`, from the recipes before it on the command line."""
    # An option without its value stops the parser, which then leaves the arguments unread.
    words = [*ctx.args, ctx.params.get("recipe"), *(ctx.params.get("paths") or ())]
    recipes = [path for path in map(Path, filter(None, words)) if path.exists()]
    try:
        return [case.name for case in load_cases(recipes) if case.name.startswith(incomplete)] if recipes else []
    except TriageError:
        return []


def rev_option(*names: str, text: str) -> Any:
    """Return an option that takes a REV. `names` are its spellings where they are not the parameter's name."""
    return typer.Option(*names, metavar="REV", help=text, autocompletion=complete_revision)


def duration_option(name: str, text: str) -> Any:
    """Return an option that takes a duration such as 45m or 90d, as seconds."""

    def seconds(value: str) -> float:
        try:
            return int(value[:-1]) * 86400.0 if re.fullmatch(r"\d{1,5}d", value) else parse_duration(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.Option(name, metavar="DURATION", parser=seconds, help=text)


def format_option(*more: str, only: tuple[str, ...] = ()) -> Any:
    """Return the `--format` option of a command. more: formats that only its result has; only: instead of all others.

    A format that is not available is refused before the command does anything.
    """
    names = only or (*FORMATS, *more)

    def check(context: typer.Context, name: str) -> str:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is not available for this command; choose from {', '.join(names)}")
        return VERBOSE if name == "text" and isinstance(context.obj, AppContext) and context.obj.verbose else name

    return typer.Option(
        "--format",
        "-f",
        metavar="|".join(names),
        callback=check,
        help="Format of the report on stdout.",
        autocompletion=lambda: list(names),
    )


RecipePaths = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Recipe files, or folders of recipes.")]
SuiteOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--suite-config",
        metavar="FILE",
        help="Read PATH as a test suite of the compiler, with the flags and known failures in this JSON file; repeatable.",
    ),
]
OneCaseOption = Annotated[
    str | None,
    typer.Option("--case", help="Case of a matrix: its name, or enough `key=value,...`.", autocompletion=complete_case),
]
CasesOption = Annotated[
    str | None,
    typer.Option("--case", help="Only cases whose name contains this (default: all).", autocompletion=complete_case),
]
ToolchainsOption = Annotated[
    list[str] | None,
    rev_option("--toolchain", "-t", text="Toolchain to compile with; repeatable (default: the newest installed one)."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Compile again instead of using cached results.")]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Accept results of other machines where they decide (default: repeat them here).")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the command lines and compile nothing.")]
ForecastOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be compiled and what is known already; compile nothing.")
]
RepoOption = Annotated[
    Path | None, typer.Option("--repo", metavar="DIR", help="Clone of the compiler, to search commits and nightlies too.")
]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project", metavar="FILE", help="File that says where toolchains of commits come from (default: triage.yaml, if any)."
    ),
]
GitHubOption = Annotated[
    bool,
    typer.Option("--github", help="Annotate the job of GitHub Actions, and write its summary and its output values."),
]
SlowerOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="For a case that passes but takes longer than on --good: cpu_seconds, run_seconds or run_seconds:FUNCTION.",
    ),
]
FormatOption = Annotated[str, format_option()]
JUnitFormatOption = Annotated[str, format_option("junit")]


@dataclass(kw_only=True)
class SeveralCases:
    """The cases of recipes."""

    paths: RecipePaths
    case: CasesOption = None
    suite_config: SuiteOption = None

    def load(self) -> tuple[Case, ...]:
        """Load the cases that --case selects."""
        return cases_named(load_cases(self.paths, self.suite_config), self.case)


@dataclass(kw_only=True)
class OneCase:
    """One case of a recipe."""

    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe file.")]
    case: OneCaseOption = None
    suite_config: SuiteOption = None

    def load(self) -> Case:
        """Load the case that --case selects."""
        return one_case(self.load_all(), self.case)

    def load_all(self) -> tuple[Case, ...]:
        """Load all cases of the recipe."""
        return load_cases([self.recipe], self.suite_config)


@dataclass(kw_only=True)
class Compiling:
    """How many compiles run at once, and where."""

    app: AppContext
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Compiles to run at once (default: one per core, as memory allows)."),
    ] = None
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="local|dask|dask:ADDRESS",
            help="Compile here, on Dask workers started here, or on those of a scheduler (default: local).",
        ),
    ] = None

    def open(self, *cases: Case, fresh: bool = False, trust: bool = False) -> AbstractContextManager[Engine]:
        """Open an engine for cases."""
        return open_runner(self.app, cases, self.jobs, self.executor, fresh=fresh, trust=trust)


def slower_metric(text: str | None) -> tuple[Metric | None, str | None]:
    """Return the metric and the function of `run_seconds:FUNCTION`. Raises BadInput for anything but the two times."""
    if text is None:
        return None, None
    name, _, function = text.partition(":")
    metric = Metric(name)
    if metric not in (Metric.RUN_SECONDS, Metric.CPU_SECONDS) or (function and metric != Metric.RUN_SECONDS):
        raise BadInput(f"--metric {text}: write cpu_seconds, run_seconds or run_seconds:FUNCTION")
    return metric, function or None


class FailureMatch(StrEnum):
    """What counts as the same failure."""

    SIGNATURE = "signature"
    CLASS = "class"
    FAMILY = "family"
    ANY = "any"


MATCHES: dict[FailureMatch, Callable[[Failure], Match]] = {
    FailureMatch.SIGNATURE: same_signature,
    FailureMatch.CLASS: same_class,
    FailureMatch.FAMILY: same_family,
    FailureMatch.ANY: lambda _: any_failure,
}
