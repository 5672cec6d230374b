"""Investigate the clusters of a night step by step, within a budget; what is known can
be reported at any time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from math import inf
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triage.execution.files import Prepared
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
    culprit_commit,
    do_step,
)
from triage.model.case import Case
from triage.model.foreign_file import read_bytes
from triage.reduce.program import settings_of
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


_CLUSTERS: TypeAdapter[KeptCluster] = TypeAdapter(KeptCluster)
_NEED_PAIR = {"narrow", "confirm", "attribute"}


@dataclass
class Investigation:
    """An investigation in progress.

    What is known of a cluster is kept in a file of TRIAGE_HOME, so that a later run
    continues and knows which failures are new.
    """

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
        self,
        clusters: Iterable[FailureCluster],
        results: Mapping[str, CaseResult],
        *,
        fresh: bool = False,
    ) -> None:
        """Take in clusters with the results of their cases, and what earlier runs found
        out. fresh: ignore what they found.
        """
        for cluster in clusters:
            self._add_cluster(
                cluster, [results[name] for name in cluster.cases], fresh=fresh
            )

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, those of new failures first, cheap steps before
        expensive ones; yield after each.
        """
        tried: set[tuple[str, str]] = set()
        self._started = time.monotonic()
        while True:
            waiting = [
                (cluster, step)
                for cluster in self.clusters
                for step in self.steps
                if (cluster.record.id, step) not in tried
                and not _is_done(cluster, step)
            ]
            if not waiting:
                return
            cluster, step = min(waiting, key=self._order)
            tried.add((cluster.record.id, step))
            self._do(cluster, step)
            if step == "confirm" and cluster.record.different:
                self._split(cluster)
            kept = KeptCluster(cluster.path.name, cluster.record)
            content = _CLUSTERS.dump_json(kept, by_alias=True)
            save_file(cluster.path, content, "keep the investigation")
            yield

    def records(self) -> list[FailureCluster]:
        """Return the clusters with what is known; a step that was not begun is left."""
        records = []
        for work in self.clusters:
            record, noted = work.record, {step.step for step in work.record.steps}
            for step in self.steps:
                if step not in noted:
                    left = StepResult(step, "left", reason="not begun")
                    record = _with_step(record, left)
            records.append(record)
        return records

    @property
    def summary(self) -> InvestigationSummary:
        seconds = round(time.monotonic() - self._started, 1)
        return InvestigationSummary(seconds, self.budget, self.again)

    def _add_cluster(
        self,
        cluster: FailureCluster,
        members: Sequence[CaseResult],
        *,
        fresh: bool = False,
    ) -> None:
        setting = self.setting
        # A regression stands for the cluster, the first that fails about as fast as
        # any: times vary from night to night.
        representative = min(
            members,
            key=lambda member: (
                member.change is not CaseChangeKind.REGRESSED,
                member.seconds // _SLOWER,
            ),
        )
        case = setting.cases[representative.case]
        path = self._path_for(cluster, case)
        older = path.parent.glob(f"{cluster.key.id}-*.json")
        is_new = all(other == path for other in older)
        record = replace(cluster, representative=case.name)
        if not fresh and path.is_file():
            record = _continued(record, path, setting.out)
        if record.draft is None and "reduce" in self.steps:
            draft = original_draft(setting.engine, case, setting.toolchain)
            record = replace(record, draft=draft)
        work = ClusterInWork(
            record,
            tuple(members),
            representative,
            case,
            path,
            is_new,
            others=self.clusters,
        )
        self.clusters.append(work)
        if work.record.different:
            self._split(work, fresh=fresh)

    def _path_for(self, cluster: FailureCluster, case: Case) -> Path:
        """Return the file that keeps what is known of a cluster: of this program with
        these settings on both compilers.
        """
        setting, engine = self.setting, self.setting.engine
        toolchain, baseline = (
            engine.registry.obtain(ref) for ref in (setting.toolchain, setting.baseline)
        )
        prepared = engine.planner.input_of(case, toolchain)
        key = (
            case.name,
            prepared.digest if isinstance(prepared, Prepared) else "",
            settings_of(case),
            toolchain.identity,
            baseline.identity,
            str(setting.finder.repo),
        )
        digest = blake2b(repr(key).encode(), digest_size=8).hexdigest()
        folder = engine.registry.home.kept(KeptKind.INVESTIGATIONS)
        return folder / f"{cluster.key.id}-{digest}.json"

    def _split(self, cluster: ClusterInWork, *, fresh: bool = False) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        whole = cluster.record
        parted = [case for case in cluster.members if case.case in whole.different]
        members = [case for case in cluster.members if case not in parted]
        cluster.members = tuple(members)
        cluster.record = replace(whole, cases=[case.case for case in members])
        number = 1 + sum(other.record.key == whole.key for other in self.clusters)
        part = whole.key.cluster([case.case for case in parted], parted[0].failure)
        self._add_cluster(replace(part, id=f"{part.id}.{number}"), parted, fresh=fresh)

    def _do(self, cluster: ClusterInWork, step: str) -> None:
        engine, rest, spent = self.setting.engine, inf, "the budget is spent"
        if self.budget is not None:
            rest = self.budget - (time.monotonic() - self._started)
        # A third of what is left of the budget is for this step of all clusters, if it
        # need not end.
        waiting = sum(not _is_done(other, step) for other in self.clusters)
        cluster.allowance = rest / 3 / waiting
        seconds = rest
        if step == "narrow" and cluster.allowance != rest:
            seconds, spent = cluster.allowance, "its share of the budget is spent"
        engine.progress.note(f"{step}: {cluster.case.name}")
        do = partial(STEPS[step], self.setting, cluster)
        _, done = do_step(engine, step, seconds, do, spent)
        cluster.record = _with_step(cluster.record, done)
        if step in ("bisect", "narrow") and done.status == "done":
            self._group_by_culprit()

    def _order(self, waiting: tuple[ClusterInWork, str]) -> tuple[bool, int, float]:
        """Return the key of the order: new failures first, then cheap steps, then fast
        cases.
        """
        cluster, step = waiting
        seconds = cluster.representative.seconds
        return not cluster.is_new, self.steps.index(step), seconds

    def _group_by_culprit(self) -> None:
        """Note for each cluster which others have the same commit as culprit."""
        commits = [
            (cluster.record.id, culprit_commit(cluster.record.culprit))
            for cluster in self.clusters
        ]
        for cluster, (own_id, own) in zip(self.clusters, commits, strict=True):
            same = [
                other_id
                for other_id, commit in commits
                if own and commit == own and other_id != own_id
            ]
            cluster.record = replace(cluster.record, same_culprit=same)


def _with_step(record: FailureCluster, done: StepResult) -> FailureCluster:
    """Return a record with a step's result, in the order of steps."""
    outdated = {done.step}
    if done.step == "narrow" and done.status == "done":
        # both ran on the toolchains around the wider range
        outdated |= {"confirm", "attribute"}
    steps = [other for other in record.steps if other.step not in outdated]
    order = list(STEPS)
    steps = sorted([*steps, done], key=lambda result: order.index(result.step))
    return replace(record, steps=steps)


def _is_done(cluster: ClusterInWork, step: str) -> bool:
    return any(
        other.step == step and other.status != "left" for other in cluster.record.steps
    )


def _continued(start: FailureCluster, path: Path, out: Path) -> FailureCluster:
    """Return a cluster with what an earlier run kept of it, unless its cases changed or
    its files are gone.
    """
    try:
        stored = _CLUSTERS.validate_json(read_bytes(path, _LARGEST_RECORD))
    except (OSError, ValidationError):
        return start
    if stored.name != path.name:
        return start
    known = stored.record
    named = (known.reproducer, known.attribution_page)
    has_other_cases = {*known.cases, *known.different} != set(start.cases)
    if has_other_cases or not all((out / name).exists() for name in named if name):
        return start
    done = {step.step for step in known.steps if step.status != "left"}
    kept = set(STEPS)
    if not done >= _NEED_PAIR:  # those find the toolchains around the culprit
        kept -= {"bisect", "narrow"}
    steps = [step for step in known.steps if step.step in kept]
    own = {
        name: getattr(start, name)
        for name in ("cases", "id", "representative", "failure")
    }
    return replace(known, **own, steps=steps)
