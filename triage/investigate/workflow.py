"""Investigate the clusters of a night step by step, within a budget; what is known can be reported at any time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.bisect.result import Answer
from triage.execution.inputs import Prepared
from triage.investigate.budget import Budget, allowance
from triage.investigate.kept import KeptClusters
from triage.investigate.steps import STEPS, ClusterInWork, InvestigationSetting, InvestigationStep, StepFailed, StepUnfinished
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.outcome import Failed
from triage.nightly.compare import CaseChangeKind, Night, Pair
from triage.reduce.program import settings_of
from triage.report.bisection import CommitSuspectShape
from triage.report.night_record import ClusterRecord, InvestigationRecord, LeftoverRecord, NightRecord, StepRecord, cluster_id
from triage.report.shapes import optional_failure

_SLOWER = 5.0  # seconds that a case may fail later than the fastest and still represent a cluster


@dataclass
class Investigation:
    """An investigation in progress. steps: those to do, in this order."""

    setting: InvestigationSetting
    budget: Budget
    steps: Sequence[InvestigationStep] = STEPS
    clusters: list[ClusterInWork] = field(default_factory=list)

    def open(self, night: Night, record: NightRecord, *, fresh: bool = False) -> None:
        """Take in the clusters of a night, with what earlier runs found out. fresh: ignore what they found."""
        if any(step.name == "bisect" for step in self.steps):
            _ = self.setting.finder  # the reports say from now on what it can search
        for cluster in record.clusters:
            pairs = [
                pair for pair in night.new_failures if pair.name in cluster.cases and _signature(pair) == cluster.signature
            ]
            if pairs:  # a case that cannot be shown is reported by itself
                self._add(cluster, pairs, fresh=fresh)

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, those of new failures first, cheap steps before expensive ones; yield after each that
        was tried.
        """
        taken: set[tuple[str, str]] = set()
        with self.budget.running(self.setting.runner.stop):
            while waiting := [entry for entry in self._waiting() if (entry[0].record.id, entry[1].name) not in taken]:
                cluster, step = min(waiting, key=_urgency)
                taken.add((cluster.record.id, step.name))
                was_done = self._take(cluster, step)
                if step.name == "confirm" and cluster.record.different:
                    self._split(cluster)
                self._kept.save(cluster.path, cluster.record)
                if was_done:
                    yield

    def _waiting(self) -> list[tuple[ClusterInWork, InvestigationStep]]:
        return [(cluster, step) for cluster in self.clusters for step in self.steps if not self._is_done(cluster, step)]

    def _add(self, cluster: ClusterRecord, pairs: Sequence[Pair], *, fresh: bool = False) -> None:
        representative = _most_suitable(pairs)
        case, runner = representative.probe.case, self.setting.runner
        toolchain, baseline = (runner.registry.obtain(ref) for ref in (self.setting.toolchain, self.setting.baseline))
        prepared = runner.prober.input_of(case, toolchain)
        digest = prepared.digest if isinstance(prepared, Prepared) else ""
        key = (case.name, digest, settings_of(case), toolchain.identity, baseline.identity, str(self.setting.repo))
        path = self._kept.path(cluster_id(cluster.signature), key)
        known = None if fresh else self._kept.load(path)
        start = replace(cluster, representative=case.name)
        if known is not None:
            start = _continued(start, known, self.setting.out)
        work = ClusterInWork(start, tuple(pairs), representative, path, self._kept.is_new(path), all=self.clusters)
        self.clusters.append(work)
        if work.record.different:
            self._split(work, fresh=fresh)

    def _split(self, cluster: ClusterInWork, *, fresh: bool = False) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        names = set(cluster.record.different)
        pairs = [pair for pair in cluster.pairs if pair.name in names]
        cluster.pairs = tuple(pair for pair in cluster.pairs if pair.name not in names)
        whole = cluster.record
        cluster.record = replace(whole, cases=[pair.name for pair in cluster.pairs])
        number = 1 + sum(other.record.signature == whole.signature for other in self.clusters)
        part = ClusterRecord(
            signature=whole.signature,
            cases=[pair.name for pair in pairs],
            id=f"{cluster_id(whole.signature)}.{number}",
            failure=optional_failure(pairs[0].failure),
            explanation=whole.explanation,
            advice=whole.advice,
        )
        self._add(part, pairs, fresh=fresh)

    def added_to(self, night: NightRecord) -> NightRecord:
        """Return the record of a night with what is known of its clusters."""
        known = {cluster.record.signature for cluster in self.clusters}
        clusters = [cluster.record for cluster in self.clusters]
        clusters += [cluster for cluster in night.clusters if cluster.signature not in known]
        left = [
            LeftoverRecord(cluster.record.id, cluster.case.name, step.name, reason, step.command(self.setting, cluster))
            for cluster in self.clusters
            for step in self.steps
            if (reason := self._left(cluster, step)) is not None
        ]
        origins = {
            name: [origin for origin in (cluster.culprit, cluster.fix) if origin]
            for cluster in clusters
            for name in (cluster.representative, *cluster.confirmed)
        }
        cases = [replace(case, bisections=origins.get(case.case) or case.bisections) for case in night.cases]
        answer = InvestigationRecord(budget_seconds=self.budget.seconds, seconds=round(self.budget.spent, 1), left=left)
        return replace(night, cases=cases, clusters=clusters, investigation=answer)

    @property
    def _kept(self) -> KeptClusters:
        return KeptClusters(self.setting.runner.registry.home)

    def _take(self, cluster: ClusterInWork, step: InvestigationStep) -> bool:
        """Do a step, or record why it is not done; return whether it was tried."""
        if self.budget.is_over and not step.is_free:
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
        return None if left is None else left / 3 / sum(not self._is_done(cluster, step) for cluster in self.clusters)

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
        outdated = {step.name, "issue"} if status == "done" else {step.name}  # the draft says what is known
        if step.name == "narrow" and status == "done":
            outdated |= {"confirm", "attribute"}
        others = [other for other in cluster.record.steps if other.step not in outdated]
        cluster.record = replace(cluster.record, steps=[*others, StepRecord(step.name, status, seconds, reason, command)])

    def _group_by_culprit(self) -> None:
        """Note which clusters have the same culprit."""
        for cluster in self.clusters:
            culprit = _culprit(cluster)
            same = [
                other.record.id for other in self.clusters if other is not cluster and culprit and _culprit(other) == culprit
            ]
            cluster.record = replace(cluster.record, same_culprit=same)

    def _is_done(self, cluster: ClusterInWork, step: InvestigationStep) -> bool:
        return any(other.step == step.name and other.status != "left" for other in cluster.record.steps)

    def _left(self, cluster: ClusterInWork, step: InvestigationStep) -> str | None:
        """Return why a step is not done yet; None when it is, or is not needed."""
        if self._is_done(cluster, step):
            return None
        noted = next((other.reason for other in cluster.record.steps if other.step == step.name), None)
        return noted or "not begun"


def _continued(start: ClusterRecord, known: ClusterRecord, out: Path) -> ClusterRecord:
    """Return a cluster with what is known of it; steps whose files are gone or elsewhere are done again."""
    record = replace(known, cases=start.cases, id=start.id, representative=start.representative, failure=start.failure)
    redone = {"confirm"} if {*known.cases, *known.different} != set(start.cases) else set()
    if redone:
        record = replace(record, confirmed=[], different=[])
    if known.reproducer is not None and not _is_in(out, known.reproducer):
        record = replace(record, reproducer=None)
        redone |= {"reduce", "replay", "issue"}
    if known.issue is not None and not _is_in(out, known.issue):
        record = replace(record, issue=None)
        redone.add("issue")
    page = known.attribution.page if known.attribution else None
    if page is not None and not _is_in(out, page):
        record = replace(record, attribution=None)
        redone |= {"attribute", "issue"}
    return replace(record, steps=[step for step in record.steps if step.step not in redone])


def _is_in(folder: Path, path: str) -> bool:
    """Return whether a path exists below a folder."""
    return Path(path).exists() and Path(path).absolute().is_relative_to(folder.absolute())


def _urgency(entry: tuple[ClusterInWork, InvestigationStep]) -> tuple[bool, int, float]:
    """Return the order of steps: new failures first, then cheap steps, then fast cases."""
    cluster, step = entry
    return not cluster.is_new, STEPS.index(step), cluster.representative.probe.measured.seconds


def _most_suitable(pairs: Sequence[Pair]) -> Pair:
    """Return the case to represent a cluster: a regression before others, of these the first that fails about as fast as any.

    Times vary from night to night, and the choice decides which kept record is continued and which folder is written.
    """
    regressed = [pair for pair in pairs if pair.change is CaseChangeKind.REGRESSED] or pairs
    fastest = min(pair.probe.measured.seconds for pair in regressed)
    return next(pair for pair in regressed if pair.probe.measured.seconds <= max(3 * fastest, fastest + _SLOWER))


def _signature(pair: Pair) -> str | None:
    return pair.probe.outcome.failure.signature if isinstance(pair.probe.outcome, Failed) else None


def _culprit(cluster: ClusterInWork) -> str | None:
    """Return the commit that is the culprit. Two failures that came with one release need not have the same culprit."""
    culprit = cluster.record.culprit
    if culprit is None or culprit.status != Answer.CULPRIT or not isinstance(culprit.suspects[0], CommitSuspectShape):
        return None
    return culprit.suspects[0].commit
