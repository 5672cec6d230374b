"""Investigate the clusters of a night step by step, within a budget; what is known can be reported at any time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triage.execution.inputs import Prepared
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.nightly.budget import Budget, allowance
from triage.nightly.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    InvestigationSummary,
    Night,
    StepResult,
    cluster_id,
)
from triage.nightly.steps import (
    STEPS,
    ClusterInWork,
    InvestigationSetting,
    InvestigationStep,
    StepFailed,
    StepUnfinished,
    commit_of,
)
from triage.reduce.program import settings_of
from triage.toolchains.home import disk_errors, write_whole

_SLOWER = 5.0  # seconds that a case may fail later than the fastest and still represent a cluster
_CLUSTERS: TypeAdapter[FailureCluster] = TypeAdapter(FailureCluster)


@dataclass
class Investigation:
    """An investigation in progress. steps: those to do, in this order.

    What is known of a cluster is kept in a file of TRIAGE_HOME, so that a later run continues and knows which failures are new.
    """

    setting: InvestigationSetting
    budget: Budget
    steps: Sequence[InvestigationStep] = STEPS
    clusters: list[ClusterInWork] = field(default_factory=list)

    def open(self, night: Night, *, fresh: bool = False) -> None:
        """Take in the clusters of a night, with what earlier runs found out. fresh: ignore what they found."""
        if any(step.name == "bisect" for step in self.steps):
            _ = self.setting.finder  # the reports say from now on what it can search
        cases = {case.case: case for case in night.new_failures}
        for cluster in night.clusters:
            self._add(cluster, [cases[name] for name in cluster.cases], fresh=fresh)

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, those of new failures first, cheap steps before expensive ones; yield after each that
        was tried.
        """
        taken: set[tuple[str, str]] = set()
        with self.budget.running(self.setting.runner.stop):
            while waiting := [entry for entry in self._waiting() if (entry[0].record.id, entry[1].name) not in taken]:
                cluster, step = min(waiting, key=self._urgency)
                taken.add((cluster.record.id, step.name))
                was_done = self._take(cluster, step)
                if step.name == "confirm" and cluster.record.different:
                    self._split(cluster)
                with disk_errors("keep the investigation"):
                    values = _CLUSTERS.dump_python(cluster.record, mode="json", by_alias=True)
                    write_whole(cluster.path, json.dumps(values))
                if was_done:
                    yield

    def added_to(self, night: Night) -> Night:
        """Return a night with what is known of its clusters."""
        for work in self.clusters:
            noted = {step.step for step in work.record.steps}
            for step in self.steps:
                if step.name not in noted:
                    self._note(work, step, "left", "not begun")
        known = {work.record.signature for work in self.clusters}
        clusters = [work.record for work in self.clusters]
        clusters += [cluster for cluster in night.clusters if cluster.signature not in known]
        origins = {
            name: [origin for origin in (cluster.culprit, cluster.fix) if origin]
            for cluster in clusters
            for name in (cluster.representative, *cluster.confirmed)
        }
        cases = [replace(case, bisections=origins.get(case.case) or case.bisections) for case in night.cases]
        answer = InvestigationSummary(round(self.budget.spent, 1), self.budget.seconds)
        return replace(night, cases=cases, clusters=clusters, investigation=answer)

    def _waiting(self) -> list[tuple[ClusterInWork, InvestigationStep]]:
        return [(cluster, step) for cluster in self.clusters for step in self.steps if not _is_done(cluster, step)]

    def _add(self, cluster: FailureCluster, members: Sequence[CaseResult], *, fresh: bool = False) -> None:
        runner = self.setting.runner
        representative = self._most_suitable(members)
        case = self.setting.run.case(representative.case)
        toolchain, baseline = (runner.registry.obtain(ref) for ref in (self.setting.toolchain, self.setting.baseline))
        prepared = runner.planner.input_of(case, toolchain)
        digest = prepared.digest if isinstance(prepared, Prepared) else ""
        key = (case.name, digest, settings_of(case), toolchain.identity, baseline.identity, str(self.setting.repo))
        folder, own = runner.registry.home / "investigations", cluster_id(cluster.signature)
        path = folder / f"{own}-{blake2b(repr(key).encode(), digest_size=8).hexdigest()}.json"
        start = replace(cluster, representative=case.name)
        if not fresh and (known := _kept(path)) is not None:
            start = _continued(start, known, self.setting.out)
        is_new = all(other == path for other in folder.glob(f"{own}-*.json"))
        work = ClusterInWork(start, tuple(members), representative, case, path, is_new, all=self.clusters)
        self.clusters.append(work)
        if work.record.different:
            self._split(work, fresh=fresh)

    def _split(self, cluster: ClusterInWork, *, fresh: bool = False) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        names = set(cluster.record.different)
        members = [case for case in cluster.members if case.case in names]
        cluster.members = tuple(case for case in cluster.members if case.case not in names)
        whole = cluster.record
        cluster.record = replace(whole, cases=[case.case for case in cluster.members])
        number = 1 + sum(other.record.signature == whole.signature for other in self.clusters)
        part = FailureCluster(
            signature=whole.signature,
            cases=[case.case for case in members],
            id=f"{cluster_id(whole.signature)}.{number}",
            failure=members[0].failure,
        )
        self._add(part, members, fresh=fresh)

    def _take(self, cluster: ClusterInWork, step: InvestigationStep) -> bool:
        """Do a step, or record why it is not done; return whether it was tried."""
        if self.budget.is_over:
            self._note(cluster, step, "left", "the budget is spent")
            return False
        if (reason := step.skipped(self.setting, cluster)) is not None:
            self._note(cluster, step, "skipped", reason)
            return False
        began = time.monotonic()
        self.setting.runner.progress.note(f"{step.name}: {cluster.case.name}")
        cluster.allowance = self._allowance(step)
        status, reason = self._attempt(cluster, step)
        self._note(cluster, step, status, reason, began)
        if step.name in ("bisect", "narrow") and status == "done":
            self._group_by_culprit()
        return True

    def _allowance(self, step: InvestigationStep) -> float | None:
        """Return the seconds of a cluster for a step that need not end: a third of the budget's rest is for all clusters."""
        left = self.budget.left
        return None if left is None else left / 3 / sum(not _is_done(cluster, step) for cluster in self.clusters)

    def _attempt(self, cluster: ClusterInWork, step: InvestigationStep) -> tuple[str, str | None]:
        """Do a step; return its status, and the reason where it has no result."""
        runner = self.setting.runner
        answer: tuple[str, str | None]
        try:
            with allowance(cluster.allowance if step.is_limited else None, runner.stop) as is_spent:
                cluster.record = step.run(self.setting, cluster)
        except Interrupted:
            if not (self.budget.is_over or is_spent.is_set()):
                raise
            answer = "left", "the budget is spent" if self.budget.is_over else "its share of the budget is spent"
        except (StepFailed, BadInput) as error:
            answer = "failed", str(error)
        except (StepUnfinished, EnvironmentFailure) as error:  # another run may succeed
            answer = "left", str(error)
        except OSError:
            raise
        except Exception as error:
            answer = "failed", runner.internal_error(f"the step {step.name} of {cluster.case.name}", error).reason
        else:
            answer = "done", None
        if not self.budget.is_over and (answer[0] != "done" or is_spent.is_set()):
            runner.stop.clear()  # a search that fails sets it, to end its other compiles
        return answer

    def _note(
        self, cluster: ClusterInWork, step: InvestigationStep, status: str, reason: str | None, began: float | None = None
    ) -> None:
        seconds = 0.0 if began is None else round(time.monotonic() - began, 2)
        command = step.command(self.setting, cluster) if status == "left" else None
        outdated = {step.name}
        if step.name == "narrow" and status == "done":
            outdated |= {"confirm", "attribute"}
        others = [other for other in cluster.record.steps if other.step not in outdated]
        cluster.record = replace(cluster.record, steps=[*others, StepResult(step.name, status, seconds, reason, command)])

    def _group_by_culprit(self) -> None:
        """Note which clusters have the same culprit."""
        commits = [commit_of(cluster.record.culprit) for cluster in self.clusters]
        for cluster, own in zip(self.clusters, commits, strict=True):
            same = [
                other.record.id
                for other, commit in zip(self.clusters, commits, strict=True)
                if own and commit == own and other is not cluster
            ]
            cluster.record = replace(cluster.record, same_culprit=same)

    def _urgency(self, entry: tuple[ClusterInWork, InvestigationStep]) -> tuple[bool, int, float]:
        """Return the order of steps: new failures first, then cheap steps, then fast cases."""
        cluster, step = entry
        return not cluster.is_new, STEPS.index(step), self.setting.run.seconds(cluster.case.name)

    def _most_suitable(self, members: Sequence[CaseResult]) -> CaseResult:
        """Return the case to represent a cluster: a regression before others, of these the first that fails about as fast as
        any.

        Times vary from night to night, and the choice decides which kept record is continued and which folder is written.
        """
        regressed = [case for case in members if case.change is CaseChangeKind.REGRESSED] or members
        seconds = {case.case: self.setting.run.seconds(case.case) for case in regressed}
        fastest = min(seconds.values())
        return next(case for case in regressed if seconds[case.case] <= max(3 * fastest, fastest + _SLOWER))


def _is_done(cluster: ClusterInWork, step: InvestigationStep) -> bool:
    return any(other.step == step.name and other.status != "left" for other in cluster.record.steps)


def _kept(path: Path) -> FailureCluster | None:
    """Return what is kept of a cluster; None where there is nothing, or the file is damaged."""
    try:
        return _CLUSTERS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _continued(start: FailureCluster, known: FailureCluster, out: Path) -> FailureCluster:
    """Return a cluster with what is known of it; steps whose files are gone or elsewhere are done again."""
    record = replace(known, cases=start.cases, id=start.id, representative=start.representative, failure=start.failure)
    redone: set[str] = set()
    if {*known.cases, *known.different} != set(start.cases):
        record = replace(record, confirmed=[], different=[])
        redone.add("confirm")
    if known.reproducer is not None and not (out / known.reproducer).is_dir():
        record = replace(record, reproducer=None, draft=None)
        redone |= {"reduce", "replay"}
    if known.attribution is not None and known.attribution.page and not (out / known.attribution.page).is_file():
        record = replace(record, attribution=None)
        redone.add("attribute")
    return replace(record, steps=[step for step in record.steps if step.step not in redone])
