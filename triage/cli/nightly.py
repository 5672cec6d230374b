"""`triage nightly` and `triage nightly merge`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from triage.cli.context import cases_in, cases_named, select_one_family
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.nights import earlier_nights, store_night
from triage.cli.options import (
    SECONDS,
    CasesOption,
    Compiling,
    DryRunOption,
    FreshOption,
    GitHubOption,
    JUnitFormatOption,
    ProjectOption,
    RecipePaths,
    RepoOption,
    SuiteOption,
    argument,
    duration_option,
    flag,
    option,
    rev_option,
)
from triage.cli.screen import print_stderr
from triage.execution.results import forecast
from triage.execution.task import ProbeJob
from triage.investigate.origin import OriginFinder
from triage.investigate.result import CaseChangeKind
from triage.model.case import Case
from triage.model.errors import BadInput, Interrupted, TriageError
from triage.nightly.result import Night
from triage.nightly.run import NightRun, with_investigation
from triage.nightly.shards import copy_files, merge, shard
from triage.nightly.store import read_night
from triage.nightly.verdict import owner_rules, with_owners
from triage.report.formats import write_report
from triage.report.night import write_night, write_reports
from triage.report.reproducer import folder_for, write_reproducer
from triage.report.tables import forecast_document
from triage.toolchains.sources.project import OwnerRule


@command
def nightly(
    paths: RecipePaths,
    compiling: Compiling,
    case: CasesOption = None,
    suite_config: SuiteOption = None,
    toolchain: Annotated[
        list[str] | None,
        rev_option("Test this toolchain (default: latest).", "--toolchain", "-t"),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        rev_option(
            "Compare with this toolchain (default: previous).", "--baseline", "-b"
        ),
    ] = None,
    bisect: Annotated[
        bool, flag("Bisect each regression and slower run.", "--bisect")
    ] = False,
    repo: RepoOption = None,
    project: ProjectOption = None,
    reduce: Annotated[
        bool,
        flag(
            "Reduce one case of each new failure; needs --out.",
            "--reduce",
        ),
    ] = False,
    investigate: Annotated[
        bool,
        flag(
            "Bisect, attribute and reduce one case of each new failure, find "
            "remedies and draft an issue; needs --out.",
            "--investigate",
        ),
    ] = False,
    budget: Annotated[
        float | None,
        duration_option(
            "With --investigate: spend at most this long, such as 45m (default: "
            "no limit)."
        ),
    ] = None,
    strict: Annotated[
        bool,
        flag(
            "Exit 1 also when a known failure passes or a case becomes slower.",
            "--strict",
        ),
    ] = False,
    bench: Annotated[
        float | None,
        duration_option(
            "Measure the run time of each case that has `bench` or `run` for "
            "this long (default: not measured)."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Write nightly.md, nightly.xml (JUnit) and nightly.json to this "
            "folder (default: none).",
            metavar="DIR",
        ),
    ] = None,
    part: Annotated[
        str | None, option("Run only the I-th of N shards.", "--shard", metavar="I/N")
    ] = None,
    github: GitHubOption = False,
    fresh: FreshOption = False,
    dry_run: DryRunOption = False,
    output: JUnitFormatOption = "text",
) -> Exit:
    """Compare a new compiler with a baseline over all recipes.

    Exit 1 when a case regressed or fails in a different way. A failure that a recipe
    expects at that version is known. Slower runs are reported with an
    interval; they change the exit code only with --strict. One compiler is compared at
    a time: among recipes of several, `triton:3.2.0` selects Triton; 3.2.0 alone selects
    IREE.

    - `triage nightly recipes/ --bisect --out out` compares the newest release with the
      one before

    - `triage nightly recipes/ -t path:build -b latest --out out --github` is for a job
      of GitHub Actions
    """
    revs = (
        _single("--toolchain", toolchain, "latest"),
        _single("--baseline", baseline, "previous"),
    )
    chosen = cases_named(cases_in(paths, suite_config), case)
    selection = select_one_family(chosen, revs, "nightly")
    cases = shard(selection.cases, part)
    wanted = _WantedSteps(
        bisect, bisect and repo is not None, reduce, investigate, budget
    )
    wanted.check(out, cases)
    owners = owner_rules(selection.family, project)
    compiling.app.is_dry = dry_run
    with compiling.open(*cases, fresh=fresh) as engine:
        new, old = (
            engine.registry.resolve(rev, selection.family) for rev in selection.revs
        )
        if dry_run:
            jobs = [
                ProbeJob(case, ref, fresh=fresh) for case in cases for ref in (new, old)
            ]
            known = forecast(engine, jobs)
            write_report(output, known, forecast_document)
            return Exit.OK
        run = NightRun(
            engine,
            cases,
            new,
            old,
            part,
            strict,
            earlier_nights(),
        )
        finder = OriginFinder(engine, run.refs, repo, project)
        reports = _Reports(run, out, output, github, owners)
        with reports.partial():
            run.compare()
            if bench or wanted.is_any:
                reports.write()
            if bench:
                run.bench(bench)
            if bisect:
                run.bisect_slower(finder, bench or SECONDS)
            if wanted.is_any:
                _investigate(run, finder, wanted, reports)
            night = reports.write()
    _publish(night, out, output, github=github)
    return exit_of(night)


@dataclass(frozen=True)
class _WantedSteps:
    """The steps that the user wants for each new failure."""

    bisect: bool
    narrow: bool
    reduce: bool
    investigate: bool
    budget: float | None

    def check(self, out: Path | None, cases: Sequence[Case]) -> None:
        """Raises BadInput where an option needs another one."""
        if self.investigate or self.reduce:
            if out is None:
                raise BadInput(
                    "--reduce and --investigate write reproducers next to the reports; "
                    "pass a folder with --out"
                )
            for case in cases:
                folder_for(out / "reproducers", case)
        if self.budget is not None and not self.investigate:
            raise BadInput("--budget limits an investigation; pass --investigate")

    @property
    def is_any(self) -> bool:
        return self.bisect or self.reduce or self.investigate

    def chosen_from(self, steps: Iterable[str]) -> list[str]:
        """Return the steps that were asked for."""
        chosen = {
            "bisect": self.bisect,
            "narrow": self.narrow,
            "confirm": self.bisect,
            "reduce": self.reduce,
        }
        return [step for step in steps if self.investigate or chosen.get(step)]

    @property
    def phase(self) -> str:
        if self.investigate:
            return "investigation"
        if self.bisect:
            return "bisects"
        return "reductions"


def _investigate(
    run: NightRun,
    finder: OriginFinder,
    wanted: _WantedSteps,
    reports: _Reports,
) -> None:
    """Do the steps for each new failure. The reports are rewritten after each one, so
    that they are complete whenever the run is killed.
    """
    from triage.investigate.investigation import Investigation
    from triage.investigate.steps import STEPS, InvestigationSetting, ReportFiles
    from triage.report.attribution import write_attribution

    run.phase = wanted.phase
    files = ReportFiles(reports.out or Path(), write_reproducer, write_attribution)
    setting = InvestigationSetting(run.engine, run.cases_by_name, finder, files)
    command_line = shlex.join(["triage", *sys.argv[1:]])
    steps = wanted.chosen_from(STEPS)
    work = Investigation(setting, command_line, wanted.budget, steps)
    night = run.night()
    results = {case.case: case for case in night.cases}
    work.add_clusters(night.clusters, results)
    reports.add = partial(with_investigation, found=work)
    for _ in work.run():
        reports.write()


@command
def nightly_merge(
    folders: Annotated[
        list[Path], argument("DIR...", "Folders that `triage nightly --shard` wrote.")
    ],
    out: Annotated[
        Path | None,
        option(
            "Write the joined reports and reproducers to this folder (default: none).",
            metavar="DIR",
        ),
    ] = None,
    allow_missing: Annotated[
        bool,
        flag(
            "Report a night with missing shards, marked as partial.", "--allow-missing"
        ),
    ] = False,
    github: GitHubOption = False,
    output: JUnitFormatOption = "text",
) -> Exit:
    """Join the results of a nightly's shards into one report, as one machine would have
    written it.

    Shards of different toolchains, cases that are in two shards, and missing shards are
    refused. The exit code is that of the whole night.

    - `triage nightly merge shards/* --out out --github`
    """
    shards = [
        (folder if folder.is_dir() else folder.parent, read_night(folder))
        for folder in folders
    ]
    nights = [night for _, night in shards]
    night = merge(nights, earlier_nights(), allow_missing=allow_missing)
    if out:
        copy_files([folder for folder, _ in shards], out)
        night = write_reports(night, out)
    _publish(night, out, output, github=github)
    return exit_of(night)


def exit_of(night: Night) -> Exit:
    """Return the exit code of a night: FOUND for a new failure, else why cases could
    not be tested, INCONCLUSIVE if some were not compared, else OK.
    """
    fails_strictly = night.strict and (night.slower or night.unexpected_passes)
    if fails_strictly or any(case.is_new_failure for case in night.cases):
        return Exit.FOUND
    untested = night.cases_with(CaseChangeKind.UNTESTABLE)
    causes = {cause for case in untested for cause in (case.cause, case.baseline.cause)}
    code = exit_without_answer(causes)
    is_any_tested = len(untested) < len(night.cases) or not night.cases
    if code is Exit.INCONCLUSIVE and is_any_tested and not night.partial:
        return Exit.OK
    return code


def _publish(night: Night, out: Path | None, output: str, *, github: bool) -> None:
    store_night(night, out)
    write_night(output, night)
    if github:
        from triage.report.github_actions import show_on_github

        show_on_github(night, os.environ)


@dataclass
class _Reports:
    """Writes what is known of a run, as often as it changes."""

    run: NightRun
    out: Path | None
    output: str
    github: bool
    owners: Sequence[OwnerRule]
    add: Callable[[Night], Night] = lambda night: night
    """Adds what is known beyond the comparison."""

    def write(self, stopped: str | None = None) -> Night:
        if self.out:
            self.run.write_logs(self.out)
        night = self.add(self.run.night(stopped))
        clusters = with_owners(night.cases, night.clusters, self.owners)
        night = replace(night, clusters=clusters)
        return write_reports(night, self.out) if self.out else night

    @contextmanager
    def partial(self) -> Iterator[None]:
        """Report what is known, marked as partial, when the block is interrupted or
        fails.
        """
        try:
            yield
        except (KeyboardInterrupt, Exception) as error:
            stopped = f"internal error: {type(error).__name__}"
            if isinstance(error, KeyboardInterrupt | Interrupted):
                stopped = "interrupted"
            elif isinstance(error, TriageError | OSError):
                stopped = str(error)
            try:
                _publish(self.write(stopped), self.out, self.output, github=self.github)
            except Exception as problem:
                print_stderr(f"triage: the partial report is missing: {problem}")
            raise


def _single(option: str, revs: Sequence[str] | None, default: str) -> str:
    """Return the only REV of an option. Raises BadInput for several, which `triage run`
    accepts and a nightly does not.
    """
    if revs and len(revs) > 1:
        raise BadInput(
            f"{option} takes one revision in a nightly, not {' and '.join(revs)}; run "
            "it once for each"
        )
    return revs[0] if revs else default
