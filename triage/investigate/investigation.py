"""Investigate the clusters of a night step by step, within a budget; what is known can
be reported at any time. Compiles are cached, so that a later run soon continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from triage.bisect.narrowed import TriedReleases, narrowed
from triage.bisect.result import Bisection
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    InvestigationSummary,
    StepResult,
)
from triage.investigate.steps import STEPS, ClusterInWork, InvestigationSetting
from triage.reduce.reproducer import original_draft

_SLOWER = 5.0  # seconds that make a difference when a case is chosen


@dataclass
class Investigation:
    """An investigation in progress."""

    setting: InvestigationSetting
    again: str
    """The command line that continues."""
    budget: float | None = None
    """Seconds; None for no limit. When they are over, the step that runs is stopped."""
    steps: Sequence[str] = tuple(STEPS)
    """The steps to do, in this order."""
    clusters: list[ClusterInWork] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def add_clusters(
        self, clusters: Iterable[FailureCluster], results: Mapping[str, CaseResult]
    ) -> None:
        """Take in clusters with the results of their cases."""
        for cluster in clusters:
            self._add(cluster, [results[name] for name in cluster.cases])

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, cheap steps and fast cases first; yield after
        each.
        """
        self._started = time.monotonic()
        engine = self.setting.engine
        while True:
            waiting = [
                (self.steps.index(step), cluster.speed, number)
                for number, cluster in enumerate(self.clusters)
                for step in self.steps
                if not cluster.ending(step)
            ]
            if not waiting:
                return
            index, _, number = min(waiting)
            cluster = self.clusters[number]
            step = self.steps[index]
            cluster.seconds = inf
            if self.budget is not None:
                # half of what is left is for this step of all clusters
                alike = sum(other == index for other, *_ in waiting)
                rest = self.budget - (time.monotonic() - self._started)
                is_last = step == self.steps[-1]
                cluster.seconds = rest if is_last else rest / 2 / alike
            engine.progress.note(f"{step}: {cluster.case.name}")
            ending = cluster.do(step)
            if step == "bisect" and ending.status != "done":
                cluster.add(culprit=self._narrowest(cluster))
            if step == "confirm" and cluster.record.different:
                self._split(cluster)
            yield

    def records(self) -> list[FailureCluster]:
        """Return the clusters with what is known; a step that was not begun is left."""
        records = []
        for cluster in self.clusters:
            steps = [
                cluster.ending(step) or StepResult(step, "left", reason="not begun")
                for step in self.steps
            ]
            records.append(replace(cluster.record, steps=steps))
        return records

    @property
    def summary(self) -> InvestigationSummary:
        seconds = round(time.monotonic() - self._started, 1)
        return InvestigationSummary(seconds, self.budget, self.again)

    def _add(self, record: FailureCluster, members: Sequence[CaseResult]) -> None:
        # A regression stands for the cluster, the first that fails about as fast as
        # any: times vary from night to night.
        result = min(
            members,
            key=lambda member: (
                member.change is not CaseChangeKind.REGRESSED,
                member.seconds // _SLOWER,
            ),
        )
        assert result.failure
        record = replace(record, representative=result.case)
        cluster = ClusterInWork(
            self.setting,
            record,
            self.setting.cases[result.case],
            result.failure,
            members,
            result.change,
            result.seconds,
        )
        if "reduce" in self.steps:
            engine = self.setting.engine
            bad = self.setting.toolchain
            cluster.add(draft=original_draft(engine, cluster.case, bad))
        self.clusters.append(cluster)

    def _narrowest(self, cluster: ClusterInWork) -> Bisection | None:
        """Return what was found, with what all tried releases say of the rest."""
        setting = self.setting
        culprit = cluster.record.culprit
        refs = [ref for ref in setting.finder.pair if ref]
        if any(ref.release is None for ref in refs):
            return culprit
        tried = TriedReleases.recall(setting.engine, cluster.case, refs)
        bad = setting.toolchain.revision.name
        engine = setting.engine
        narrowest = narrowed(engine, cluster.case, tried, cluster.failure, bad)
        if culprit and narrowest and culprit.before:
            return replace(culprit, fixed=narrowest.fixed)
        return culprit or narrowest

    def _split(self, cluster: ClusterInWork) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        key = cluster.record.key
        names = cluster.record.different
        parted = [member for member in cluster.members if member.case in names]
        cluster.members = [
            member for member in cluster.members if member.case not in names
        ]
        cluster.add(cases=[member.case for member in cluster.members])
        number = 1 + sum(other.record.key == key for other in self.clusters)
        part = key.cluster([member.case for member in parted], parted[0].failure)
        self._add(replace(part, id=f"{part.id}.{number}"), parted)
