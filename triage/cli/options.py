"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from triage.cli.completion import complete_case, complete_revision
from triage.execution.judge import Match, Metric, any_failure, same_class, same_family, same_signature
from triage.model.errors import BadInput
from triage.model.outcome import Failure
from triage.recipes.values import parse_duration
from triage.report.formats import FORMATS

SECONDS = 60.0  # for which each probe of a time is measured at most

RecipePaths = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Recipe files, or folders of recipes.")]
RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe file.")]
SuiteOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--suite-config",
        metavar="FILE",
        help="Read PATH as a test suite of the compiler, with the flags and known failures in this JSON file; repeatable.",
    ),
]
CaseOption = Annotated[
    str | None,
    typer.Option(
        "--case",
        help="Case of a recipe with a matrix: its name, or enough `key=value,...` to identify it.",
        autocompletion=complete_case,
    ),
]
CasesOption = Annotated[
    str | None,
    typer.Option("--case", help="Only cases whose name contains this (default: all).", autocompletion=complete_case),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Compiles to run at once (default: one per core, as memory allows)."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Compile again instead of using cached results.")]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="local|dask|dask:ADDRESS",
        help="Where compiles run: here, on Dask workers that are started here, or on those of a scheduler (default: local).",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Count results of other machines as own ones (default: they are repeated here where they decide).",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the command lines and compile nothing.")]
ForecastOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be compiled and what is known already; compile nothing.")
]
RepoOption = Annotated[
    Path | None, typer.Option("--repo", metavar="DIR", help="Clone of the compiler, to search commits and nightlies too.")
]
GitHubOption = Annotated[
    bool,
    typer.Option(
        "--github", help="Print annotations for GitHub Actions, and append to GITHUB_STEP_SUMMARY and GITHUB_OUTPUT where set."
    ),
]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project", metavar="FILE", help="File that says where toolchains of commits come from (default: triage.yaml, if any)."
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Follow this number instead of a failure: cpu_seconds, peak_rss_mb, artifact_bytes, run_seconds, or any that "
        "`triage run` reports for the recipe. Needs --good, and --bad to bisect.",
    ),
]
SlowerOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="For a case that passes but takes longer than on --good: cpu_seconds, run_seconds or run_seconds:FUNCTION.",
    ),
]


def slower_metric(text: str | None) -> tuple[Metric | None, str | None]:
    """Return the metric and the function of `run_seconds:FUNCTION`. Raises BadInput for anything but the two times."""
    if text is None:
        return None, None
    name, _, function = text.partition(":")
    metric = Metric(name)
    if metric not in (Metric.RUN_SECONDS, Metric.CPU_SECONDS) or (function and metric != Metric.RUN_SECONDS):
        raise BadInput(f"--metric {text}: write cpu_seconds, run_seconds or run_seconds:FUNCTION")
    return metric, function or None


def rev_option(*names: str, text: str) -> Any:
    """Return an option that takes a REV. `names` are its spellings where they are not the parameter's name."""
    return typer.Option(*names, metavar="REV", help=text, autocompletion=complete_revision)


def format_option(*more: str, only: tuple[str, ...] = ()) -> Any:
    """Return the `--format` option of a command. more: formats that only its result has; only: instead of all others.

    A format that is not available is refused before the command does anything.
    """
    names = only or (*FORMATS, *more)

    def check(name: str) -> str:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is not available for this command; choose from {', '.join(names)}")
        return name

    return typer.Option(
        "--format",
        "-f",
        metavar="|".join(names),
        callback=check,
        help="Format of the report on stdout.",
        autocompletion=lambda: list(names),
    )


def duration_of(option: str, text: str) -> float:
    """Return the seconds of a duration. BadInput, which names the option, for another text."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadInput(f"{option} {error}") from error


def time_before(option: str, text: str) -> datetime:
    """Return the time that is `90d`, or another duration, before now. BadInput, which names the option, for another text."""
    try:
        seconds = float(text[:-1]) * 86400 if text.endswith("d") else parse_duration(text)
        return datetime.now(UTC) - timedelta(seconds=seconds)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{option} {text!r}: write a duration such as 90d") from error


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
