"""Investigate the clusters of a night step by step, within a budget; what is known can
be reported at any time. Compiles are cached, so that a later run soon continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from triage.bisect.narrowed import narrowed
from triage.bisect.result import Answer, Bisection
from triage.execution.results import TriedReleases
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    InvestigationSummary,
    StepResult,
)
from triage.investigate.steps import (
    STEPS,
    ClusterInWork,
    InvestigationSetting,
    do_step,
)
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
                (self.steps.index(step), cluster.result.seconds, number)
                for number, cluster in enumerate(self.clusters)
                for step in self.steps
                if not cluster.ending(step)
            ]
            if not waiting:
                return
            index, _, number = min(waiting)
            cluster, step = self.clusters[number], self.steps[index]
            rest = inf
            if self.budget is not None:
                rest = self.budget - (time.monotonic() - self._started)
            # A third of what is left of the budget is for this step of all clusters, if
            # it need not end.
            alike = sum(other == index for other, *_ in waiting)
            cluster.seconds = rest / 3 / alike
            engine.progress.note(f"{step}: {cluster.case.name}")
            seconds = cluster.seconds if step == "narrow" else rest
            do = partial(cluster.do, step, self.clusters)
            _, ending = do_step(engine, step, seconds, do)
            cluster.add(steps=[*cluster.record.steps, ending])
            if step == "bisect" and ending.status == "left":
                cluster.add(culprit=self._narrowest(cluster))
            if step in ("bisect", "narrow"):
                self._group_by_culprit()
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
        record = replace(record, representative=result.case)
        cluster = ClusterInWork(self.setting, record, members, result)
        if "reduce" in self.steps:
            engine, bad = self.setting.engine, self.setting.toolchain
            cluster.add(draft=original_draft(engine, cluster.case, bad))
        self.clusters.append(cluster)

    def _narrowest(self, cluster: ClusterInWork) -> Bisection | None:
        """Return what the releases that were tried say of a culprit."""
        setting = self.setting
        pair = (setting.baseline, setting.toolchain)
        if any(ref.release is None for ref in pair):
            return None
        tried = TriedReleases.recall(setting.engine, cluster.case, pair)
        bad = setting.toolchain.revision
        return narrowed(cluster.case, tried, cluster.failure, bad)

    def _split(self, cluster: ClusterInWork) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        key, names = cluster.record.key, cluster.record.different
        parted = [member for member in cluster.members if member.case in names]
        cluster.members = [
            member for member in cluster.members if member.case not in names
        ]
        cluster.add(cases=[member.case for member in cluster.members])
        number = 1 + sum(other.record.key == key for other in self.clusters)
        part = key.cluster([member.case for member in parted], parted[0].failure)
        self._add(replace(part, id=f"{part.id}.{number}"), parted)

    def _group_by_culprit(self) -> None:
        """Note for each cluster which others have the same commit as culprit."""
        commits = {
            cluster.record.id: _culprit_commit(cluster.record.culprit)
            for cluster in self.clusters
        }
        for cluster in self.clusters:
            own = commits[cluster.record.id]
            same = [
                other
                for other, commit in commits.items()
                if own and commit == own and other != cluster.record.id
            ]
            cluster.add(same_culprit=same)


def _culprit_commit(culprit: Bisection | None) -> str | None:
    """Return the commit that is the culprit. Two failures that came with one release
    need not have the same culprit.
    """
    if culprit is None or culprit.status != Answer.CULPRIT:
        return None
    [suspect] = culprit.suspects
    if suspect.commit and suspect.commit.startswith(suspect.name):
        return suspect.commit
    return None
