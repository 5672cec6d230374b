"""Investigate the clusters of a night step by step, within a budget; what is known can
be reported at any time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    commit_of,
    do_step,
)
from triage.reduce.program import settings_of
from triage.reduce.reproducer import original_draft
from triage.toolchains.home import KeptKind, save_file

_SLOWER = 5.0  # seconds that make a difference when a case is chosen
_CLUSTERS: TypeAdapter[FailureCluster] = TypeAdapter(FailureCluster)
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
    """Those to do, in this order."""
    clusters: list[ClusterInWork] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def open(
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
            self._add(cluster, [results[name] for name in cluster.cases], fresh=fresh)

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, those of new failures first, cheap steps before
        expensive ones; yield after each.
        """
        tried: set[tuple[str, str]] = set()
        self._started = time.monotonic()
        while waiting := [
            (cluster, step)
            for cluster in self.clusters
            for step in self.steps
            if (cluster.record.id, step) not in tried and not _is_done(cluster, step)
        ]:
            cluster, step = min(waiting, key=self._place)
            tried.add((cluster.record.id, step))
            self._take(cluster, step)
            if step == "confirm" and cluster.record.different:
                self._split(cluster)
            save_file(
                cluster.path,
                _CLUSTERS.dump_json(cluster.record, by_alias=True),
                "keep the investigation",
            )
            yield

    def records(self) -> list[FailureCluster]:
        """Return the clusters with what is known; a step that was not begun is left."""
        for work in self.clusters:
            noted = {step.step for step in work.record.steps}
            for step in self.steps:
                if step not in noted:
                    self._record_step(
                        work, StepResult(step, "left", reason="not begun")
                    )
        return [work.record for work in self.clusters]

    @property
    def summary(self) -> InvestigationSummary:
        seconds = round(time.monotonic() - self._started, 1)
        return InvestigationSummary(seconds, self.budget, self.again)

    def _add(
        self,
        cluster: FailureCluster,
        members: Sequence[CaseResult],
        *,
        fresh: bool = False,
    ) -> None:
        setting, engine = self.setting, self.setting.engine
        # A regression stands for the cluster, the first that fails about as fast as
        # any: times vary from night to night.
        representative = min(
            members,
            key=lambda it: (
                it.change is not CaseChangeKind.REGRESSED,
                it.seconds // _SLOWER,
            ),
        )
        case = setting.cases[representative.case]
        toolchain, baseline = (
            engine.registry.obtain(ref) for ref in (setting.toolchain, setting.baseline)
        )
        prepared = engine.planner.input_of(case, toolchain)
        digest = prepared.digest if isinstance(prepared, Prepared) else ""
        key = (
            case.name,
            digest,
            settings_of(case),
            toolchain.identity,
            baseline.identity,
            str(setting.finder.repo),
        )
        folder, own = engine.registry.home.kept(KeptKind.INVESTIGATIONS), cluster.key.id
        path = (
            folder
            / f"{own}-{blake2b(repr(key).encode(), digest_size=8).hexdigest()}.json"
        )
        is_new = all(other == path for other in folder.glob(f"{own}-*.json"))
        record = replace(cluster, representative=case.name)
        if not fresh and path.is_file():
            record = _continued(record, path, self.setting.out)
        if record.draft is None and "reduce" in self.steps:
            record = replace(
                record, draft=original_draft(engine, case, setting.toolchain)
            )
        work = ClusterInWork(
            record,
            tuple(members),
            representative,
            case,
            path,
            is_new,
            all=self.clusters,
        )
        self.clusters.append(work)
        if work.record.different:
            self._split(work, fresh=fresh)

    def _split(self, cluster: ClusterInWork, *, fresh: bool = False) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        whole = cluster.record
        members = [case for case in cluster.members if case.case in whole.different]
        cluster.members = tuple(
            case for case in cluster.members if case.case not in whole.different
        )
        cluster.record = replace(whole, cases=[case.case for case in cluster.members])
        number = 1 + sum(other.record.key == whole.key for other in self.clusters)
        part = whole.key.cluster([case.case for case in members], members[0].failure)
        self._add(replace(part, id=f"{part.id}.{number}"), members, fresh=fresh)

    def _take(self, cluster: ClusterInWork, step: str) -> None:
        engine = self.setting.engine
        if self.budget is None:
            rest = inf
        else:
            rest = self.budget - (time.monotonic() - self._started)
        # A third of what is left of the budget is for this step of all clusters, if it
        # need not end.
        cluster.allowance = (
            rest / 3 / sum(not _is_done(other, step) for other in self.clusters)
        )
        seconds = cluster.allowance if step == "narrow" else rest

        engine.progress.note(f"{step}: {cluster.case.name}")
        if seconds == rest:
            spent = "the budget is spent"
        else:
            spent = "its share of the budget is spent"
        _, done = do_step(
            engine, step, seconds, lambda: STEPS[step](self.setting, cluster), spent
        )
        self._record_step(cluster, done)
        if step in ("bisect", "narrow") and done.status == "done":
            self._group_by_culprit()

    def _place(self, waiting: tuple[ClusterInWork, str]) -> tuple[bool, int, float]:
        """Return the key of the order: new failures first, then cheap steps, then fast
        cases.
        """
        cluster, step = waiting
        return (
            not cluster.is_new,
            self.steps.index(step),
            cluster.representative.seconds,
        )

    def _record_step(self, cluster: ClusterInWork, done: StepResult) -> None:
        """Put a step's result into the record of its cluster, in the order of steps."""
        outdated = {done.step}
        if done.step == "narrow" and done.status == "done":
            # both ran on the toolchains around the wider range
            outdated |= {"confirm", "attribute"}
        steps = [other for other in cluster.record.steps if other.step not in outdated]
        steps.append(done)
        order = list(STEPS)
        steps.sort(key=lambda result: order.index(result.step))
        cluster.record = replace(cluster.record, steps=steps)

    def _group_by_culprit(self) -> None:
        for cluster in self.clusters:
            own = commit_of(cluster.record.culprit)
            others = [other for other in self.clusters if other is not cluster]
            same = [
                other.record.id
                for other in others
                if own and commit_of(other.record.culprit) == own
            ]
            cluster.record = replace(cluster.record, same_culprit=same)


def _is_done(cluster: ClusterInWork, step: str) -> bool:
    return any(
        other.step == step and other.status != "left" for other in cluster.record.steps
    )


def _continued(start: FailureCluster, path: Path, out: Path) -> FailureCluster:
    """Return a cluster with what an earlier run kept of it, unless its cases changed or
    its files are gone.
    """
    try:
        known = _CLUSTERS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return start
    named = (known.reproducer, known.attribution_page)
    if {*known.cases, *known.different} != set(start.cases) or not all(
        (out / name).exists() for name in named if name
    ):
        return start
    done = {step.step for step in known.steps if step.status != "left"}
    again: tuple[str, ...] = ()
    if not done >= _NEED_PAIR:  # they find the toolchains around the culprit
        again = ("bisect", "narrow")
    steps = [
        step for step in known.steps if step.step in STEPS and step.step not in again
    ]
    own = {
        name: getattr(start, name)
        for name in ("cases", "id", "representative", "failure")
    }
    return replace(known, **own, steps=steps)
