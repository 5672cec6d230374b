"""`triage nightly` and `triage nightly merge`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from triage.cli.cases import Compiling, cases_in, cases_named, of_one_family
from triage.cli.command import (
    CASES,
    DRY_RUN,
    GITHUB,
    OUT,
    REPO,
    SUITE,
    Reply,
    argument,
    duration_option,
    flag,
    junit_command,
    option,
    print_stderr,
    report,
    toolchain_option,
)
from triage.cli.nights import earlier_nights, store_night
from triage.execution.judge import forecast
from triage.execution.task import ProbeJob
from triage.git_history.repository import Repository
from triage.model.errors import BadInput, Interrupted
from triage.nightly.compare import copy_files, merge, owner_rules, shard
from triage.nightly.result import Night
from triage.nightly.run import NightRun
from triage.nightly.store import read_night
from triage.report.night import (
    night_junit,
    screen_document,
    show_on_github,
    write_reports,
)
from triage.report.reproducer import folder_for, write_reproducer
from triage.report.tables import forecast_document


@junit_command
def nightly(
    compiling: Compiling,
    paths: list[Path] = argument(
        "PATH", "Recipes, folders of recipes, or test suites."
    ),
    case: str | None = CASES,
    suite_config: list[Path] | None = SUITE,
    toolchain: str = toolchain_option("Test this toolchain.", default="latest"),
    baseline: str = option(
        "REV",
        "Compare with this toolchain.",
        "--baseline",
        "-b",
        default="previous",
    ),
    bisect: bool = flag("--bisect", "Bisect each regression and slower run."),
    repo: Path | None = REPO,
    reduce: bool = flag(
        "--reduce", "Reduce one case of each new failure; needs --out."
    ),
    investigate: bool = flag(
        "--investigate",
        "Bisect, attribute and reduce one case of each new failure, find "
        "remedies and draft an issue; needs --out.",
    ),
    budget: float | None = duration_option(
        "With --investigate: spend at most this long, such as 45m (default: no limit)."
    ),
    strict: bool = flag(
        "--strict", "Exit 1 also when a known failure passes or a case becomes slower."
    ),
    bench: float | None = duration_option(
        "Measure the run time of each case that has `bench` or `run` for "
        "this long (default: not measured)."
    ),
    out: Path | None = OUT,
    part: str | None = option("I/N", "Run only the I-th of N shards.", "--shard"),
    github: bool = GITHUB,
    dry_run: bool = DRY_RUN,
) -> Reply:
    """Compare a new compiler with a baseline over all recipes.

    Exit 1 when a case regressed or fails in a different way. A failure that a recipe
    expects at that version is known. With --bench, slower runs are reported with an
    interval; they change the exit code only with --strict. One compiler is compared at
    a time: among recipes of several, `triton:3.2.0` selects Triton; 3.2.0 alone selects
    IREE.

    - `triage nightly recipes/ --bisect --out out` compares the newest release with the
      one before

    - `triage nightly recipes/ -t path:build -b latest --out out --github` is for a job
      of GitHub Actions
    """
    chosen = cases_named(cases_in(paths, suite_config), case)
    chosen = of_one_family(chosen, (toolchain, baseline))
    cases = shard(chosen, part)
    family = chosen[0].compiler
    if repo:
        Repository(repo)
    if budget is not None and not investigate:
        raise BadInput("--budget needs --investigate")
    reproducers = (out or Path()) / "reproducers"
    if investigate or reduce:
        if out is None:
            raise BadInput("--reduce and --investigate need --out")
        for tested in cases:
            folder_for(reproducers, tested)
    owners = owner_rules(family)
    with compiling.open(*cases, dry=dry_run) as engine:
        new = engine.registry.resolve(toolchain, family)
        old = engine.registry.resolve(baseline, family)
        if dry_run:
            jobs = [ProbeJob(case, ref) for case in cases for ref in (new, old)]
            return report(forecast(engine, jobs), forecast_document)
        run = NightRun(
            engine,
            cases,
            new,
            old,
            shard=part,
            strict=strict,
            repo=repo,
            bisects=bisect,
            reduces=reduce,
            investigates=investigate,
            budget=budget,
            bench=bench,
            earlier=earlier_nights(),
            owners=owners,
            out=out,
            write_reproducer=lambda made: write_reproducer(made, reproducers),
            write=write_reports,
        )
        try:
            night = run.run()
        except (KeyboardInterrupt, Exception) as error:
            try:
                partial = _publish(run.report(_reason(error)), out, github)
            except Exception as problem:
                print_stderr(f"triage: the partial report is missing: {problem}")
                raise error from None
            return replace(partial, error=error)
    return _publish(night, out, github)


def _reason(error: BaseException) -> str:
    """Return why a night is partial."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return "interrupted"
    return str(error) or type(error).__name__


@junit_command
def nightly_merge(
    folders: list[Path] = argument(
        "DIR", "Folders that `triage nightly --shard` wrote."
    ),
    out: Path | None = OUT,
    github: bool = GITHUB,
) -> Reply:
    """Join the results of a nightly's shards into one report, as one machine would have
    written it.

    Shards of different toolchains and cases that are in two shards are refused; without
    some of its shards, the night is partial. The exit code is that of the whole night.

    - `triage nightly merge shards/* --out out --github`
    """
    shards = [
        (folder if folder.is_dir() else folder.parent, read_night(folder))
        for folder in folders
    ]
    nights = [night for _, night in shards]
    night = merge(nights, earlier_nights())
    if out:
        copy_files([folder for folder, _ in shards], out)
        night = write_reports(night, out)
    return _publish(night, out, github)


def _publish(night: Night, out: Path | None, github: bool) -> Reply:
    """Store a night, and show it on GitHub."""
    store_night(night, out)
    if github:
        show_on_github(night, os.environ)
    return report(night, screen_document, junit=night_junit)
