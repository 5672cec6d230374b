"""The work of a night: compare, measure, bisect and investigate. What is known is
reported after each part, so that the reports are complete whenever the run is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.investigate.result import ReportFiles
from triage.nightly.result import Night
from triage.nightly.run import NightRun, with_investigation
from triage.nightly.verdict import with_owners
from triage.toolchains.sources.project import OwnerRule

if TYPE_CHECKING:  # most nights investigate nothing
    from triage.investigate.investigation import Investigation
    from triage.investigate.origin import OriginFinder

_SECONDS = 60.0  # for which each probe of a slower run is measured


@dataclass(frozen=True)
class NightPlan:
    """What is done in a night besides the comparison."""

    repo: Path | None
    """A clone of the compiler."""
    bisect: bool
    reduce: bool
    investigate: bool
    budget: float | None
    """Seconds for all investigations."""
    bench: float | None
    """Seconds in which each run is measured."""

    @property
    def steps(self) -> list[str]:
        """The steps for each new failure."""
        if not (self.investigate or self.bisect or self.reduce):
            return []
        from triage.investigate.steps import STEPS

        wanted = {
            "bisect": self.bisect,
            "narrow": self.bisect and self.repo is not None,
            "confirm": self.bisect,
            "reduce": self.reduce,
        }
        return [step for step in STEPS if self.investigate or wanted.get(step)]


@dataclass
class NightWork:
    """A night in progress, and how it is reported."""

    run: NightRun
    plan: NightPlan
    owners: Sequence[OwnerRule]
    files: ReportFiles | None
    """Where logs, reproducers and pages are written, if anywhere."""
    write: Callable[[Night, Path], Night]
    """Writes the reports of a night into a folder."""
    command: str
    """The line that continues."""
    investigation: Investigation | None = None
    """The investigation of the new failures, once it has begun."""

    def do(self) -> Night:
        """Do everything; return the finished night."""
        run, plan = self.run, self.plan
        run.compare()
        run.time_compiles()
        if plan.bench or plan.steps:
            self.report()
        if plan.bench:
            run.bench(plan.bench)
        if plan.steps:
            from triage.investigate.origin import OriginFinder

            finder = OriginFinder(run.engine, run.refs, plan.repo)
            if plan.bisect:
                run.bisect_slower(finder, plan.bench or _SECONDS)
            self._investigate(finder)
        return self.report()

    def report(self, stopped: str | None = None) -> Night:
        """Write what is known. stopped: why the night ends early."""
        if self.files:
            self.run.write_logs(self.files.out)
        night = self.run.night(stopped)
        if self.investigation:
            night = with_investigation(night, self.investigation)
        clusters = with_owners(night.cases, night.clusters, self.owners)
        night = replace(night, clusters=clusters)
        if self.files:
            night = self.write(night, self.files.out)
        return night

    def _investigate(self, finder: OriginFinder) -> None:
        """Do the steps for each new failure."""
        from triage.investigate.investigation import Investigation
        from triage.investigate.steps import InvestigationSetting

        run, plan = self.run, self.plan
        run.phase = "investigation"
        setting = InvestigationSetting(
            run.engine, run.cases_by_name, finder, self.files
        )
        work = Investigation(setting, self.command, plan.budget, plan.steps)
        night = run.night()
        work.add_clusters(night.clusters, {case.case: case for case in night.cases})
        self.investigation = work
        for _ in work.run():
            self.report()
