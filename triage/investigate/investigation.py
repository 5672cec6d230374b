"""Investigate the clusters of a night step by step, within a budget; what is known can
be reported at any time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import inf
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triage.bisect.narrowed import narrowed
from triage.bisect.result import Answer, Bisection
from triage.execution.results import TriedReleases
from triage.execution.task import Task
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    InvestigationSummary,
    StepResult,
)
from triage.investigate.steps import (
    NEED_PAIR,
    STEPS,
    ClusterInWork,
    InvestigationSetting,
    do_step,
)
from triage.model.foreign_file import read_bytes
from triage.model.outcome import NoAnswer
from triage.reduce.reproducer import original_draft
from triage.toolchains.home import KeptKind, save_file

_SLOWER = 5.0  # seconds that make a difference when a case is chosen
_LARGEST_RECORD = 256 << 20  # bytes


@dataclass(frozen=True)
class KeptCluster:
    """What the file of a cluster holds."""

    name: str
    """Of the file, which is the key."""
    record: FailureCluster

    def has_files(self, out: Path) -> bool:
        names = (self.record.reproducer, self.record.attribution_page)
        return all((out / name).exists() for name in names if name)


_CLUSTERS: TypeAdapter[KeptCluster] = TypeAdapter(KeptCluster)


@dataclass
class Investigation:
    """An investigation in progress.

    What is known of a cluster is kept in a file of TRIAGE_HOME, so that a later run
    continues.
    """

    setting: InvestigationSetting
    again: str
    """The command line that continues."""
    budget: float | None = None
    """Seconds; None for no limit. When they are over, the step that runs is stopped."""
    steps: Sequence[str] = tuple(STEPS)
    """The steps to do, in this order."""
    fresh: bool = False
    """Whether to ignore what earlier runs found."""
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
        while True:
            waiting = [
                (self.steps.index(step), cluster.result.seconds, number)
                for number, cluster in enumerate(self.clusters)
                for step in self.steps
                if not _ending(cluster, step)
            ]
            if not waiting:
                return
            index, _, number = min(waiting)
            cluster, step = self.clusters[number], self.steps[index]
            alike = sum(other == index for other, *_ in waiting)
            self._do(cluster, step, alike)
            if step in ("bisect", "narrow"):
                self._group_by_culprit()
            if step == "confirm" and cluster.record.different:
                self._split(cluster)
            self._keep(cluster)
            yield

    def records(self) -> list[FailureCluster]:
        """Return the clusters with what is known; a step that was not begun is left."""
        records = []
        for cluster in self.clusters:
            steps = [
                _ending(cluster, step) or StepResult(step, "left", reason="not begun")
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
        cluster.path = self._path_of(cluster)
        kept = None if self.fresh else _kept(cluster.path)
        if kept and kept.has_files(self.setting.out):
            cluster.record = self._continued(kept.record)
        if cluster.record.draft is None and "reduce" in self.steps:
            engine, bad = self.setting.engine, self.setting.toolchain
            cluster.add(draft=original_draft(engine, cluster.case, bad))
        self.clusters.append(cluster)
        if cluster.record.different:
            self._split(cluster)

    def _path_of(self, cluster: ClusterInWork) -> Path:
        """Return the file that keeps a cluster: of these cases, with this program and
        these settings on both toolchains.
        """
        setting, engine = self.setting, self.setting.engine
        tasks = [
            engine.planner.plan(cluster.case, engine.registry.obtain(ref))
            for ref in (setting.toolchain, setting.baseline)
        ]
        keys = [
            task.key if isinstance(task, Task) else task.revision.name for task in tasks
        ]
        key = repr((keys, sorted(cluster.record.cases), setting.finder.repo))
        digest = blake2b(key.encode(), digest_size=8).hexdigest()
        folder = engine.registry.home.kept(KeptKind.INVESTIGATIONS)
        return folder / f"{cluster.record.id}-{digest}.json"

    def _continued(self, record: FailureCluster) -> FailureCluster:
        """Return a kept record without the steps to do again."""
        ended = {ending.step for ending in record.steps if ending.status != "left"}
        if not ended.issuperset(NEED_PAIR.intersection(self.steps)):
            ended -= {"bisect", "narrow"}  # they find the toolchains around the culprit
        steps = [ending for ending in record.steps if ending.step in ended]
        return replace(record, steps=steps)

    def _keep(self, cluster: ClusterInWork) -> None:
        kept = KeptCluster(cluster.path.name, cluster.record)
        content = _CLUSTERS.dump_json(kept, by_alias=True)
        save_file(cluster.path, content, "keep the investigation")

    def _do(self, cluster: ClusterInWork, step: str, alike: int) -> None:
        """Do a step. alike: the clusters that wait for the same step."""
        engine, rest, spent = self.setting.engine, inf, "the budget is spent"
        if self.budget is not None:
            rest = self.budget - (time.monotonic() - self._started)
        # A third of what is left of the budget is for this step of all clusters, if it
        # need not end.
        seconds, cluster.seconds = rest, rest / 3 / alike
        if step == "narrow" and self.budget is not None:
            seconds, spent = cluster.seconds, "its share of the budget is spent"
        engine.progress.note(f"{step}: {cluster.case.name}")
        needless = cluster.needless(step, self.clusters)

        def do() -> NoAnswer | None:
            return needless or STEPS[step](cluster)

        _, ended = do_step(engine, step, seconds, do, spent)
        if step == "bisect" and ended.status == "left":
            cluster.add(culprit=self._narrowest(cluster))
        cluster.add(steps=[*cluster.record.steps, ended])

    def _narrowest(self, cluster: ClusterInWork) -> Bisection | None:
        """Return what the releases that were tried say of a culprit."""
        setting = self.setting
        pair = (setting.baseline, setting.toolchain)
        if not all(ref.is_release or ref.is_nightly for ref in pair):
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


def _kept(path: Path) -> KeptCluster | None:
    """Return what an earlier run kept of a cluster."""
    with suppress(OSError, ValidationError):
        kept = _CLUSTERS.validate_json(read_bytes(path, _LARGEST_RECORD))
        if kept.name == path.name:
            return kept
    return None


def _ending(cluster: ClusterInWork, step: str) -> StepResult | None:
    endings = {ending.step: ending for ending in cluster.record.steps}
    return endings.get(step)


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
