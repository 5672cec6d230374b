"""Investigate clusters of cases with one new failure, step by step within a budget:
those of a night, or the one of `triage why`. What is known can be reported at any
time. Compiles are cached, so that a later run soon continues.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from triage.attribute.divergence import AttributionRequest, attribute
from triage.execution.match import same_signature
from triage.execution.task import ProbeJob
from triage.investigate.origin import OriginFinder, ToolchainPair, is_of_releases
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    InvestigationSummary,
    ReportFiles,
    StepResult,
)
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Outcome, Passed
from triage.reduce.interestingness import ReductionRequest
from triage.reduce.replay import replay_states
from triage.reduce.reproducer import draft_of, original_draft, reproducer_of
from triage.reduce.workflow import reduce_case
from triage.remedy.search import RemedyRequest, find_remedies

Step = Callable[["ClusterInvestigation"], NoAnswer | None]
"""Adds what it finds out to a cluster, or returns why it finds nothing."""
_REMEDIES_TRIED = 60  # candidates
_REMEDY_SECONDS = 300.0  # a budget may allow less
_PATIENCE_SECONDS = 120.0  # for each compile that prints its IR
_SLOWER_SECONDS = 5.0  # that make a difference when a case is chosen
_SPENT = "the budget is spent"
#: The status of a step without an answer; `failed` for other causes.
_STATUSES = {
    Cause.TIME: "left",
    Cause.ENVIRONMENT: "left",
    Cause.TOOLCHAIN: "left",
    Cause.NEEDLESS: "skipped",
}


@dataclass(eq=False)
class ClusterInvestigation:
    """A cluster, and the case that stands for it. A step adds its answer to the record,
    and returns why it has none.
    """

    finder: OriginFinder
    cases: Mapping[str, Case]
    """All cases by name, also of other clusters."""
    record: FailureCluster
    case: Case
    members: Sequence[CaseResult] = ()
    """The results of all its cases in a night."""
    change: CaseChangeKind = CaseChangeKind.REGRESSED
    files: ReportFiles | None = None
    pair: ToolchainPair | None = None
    """The toolchains before and at the culprit, once they are known."""
    seconds: float = inf
    """What a step may take."""

    @property
    def failure(self) -> Failure:
        """The failure, once it is known."""
        assert self.record.failure
        return self.record.failure

    @property
    def changed(self) -> Failure | None:
        """The failure, if another one was there before."""
        if self.change is CaseChangeKind.CHANGED:
            return self.failure
        return None

    def add(self, **answers: Any) -> None:
        self.record = replace(self.record, **answers)

    def ending(self, step: str) -> StepResult | None:
        """Return how a step ended, if it was done."""
        endings = {ending.step: ending for ending in self.record.steps}
        return endings.get(step)

    def do(self, name: str, step: Step) -> None:
        """Do a step within its time, and record how it ended."""
        ending = _do_step(self, name, step)
        self.add(steps=[*self.record.steps, ending])
        if name == "bisect" and ending.status != "done" and self.record.failure:
            self._add_known_range()

    def bisect(self) -> NoAnswer | None:
        culprit = self.finder.bisect(self.case, self.changed)
        self.pair = self.finder.pair_of(culprit)
        self.add(culprit=culprit)
        fix = self.finder.find_fix(self.case)
        if fix:
            culprit = replace(culprit, fixed=fix.broke) if culprit.after else fix
            self.add(culprit=culprit)
        return culprit.unanswered if culprit.after is None else None

    def _add_known_range(self) -> None:
        """Add what all tried releases say, for a bisect that was not finished."""
        culprit = self.record.culprit or self.finder.known(self.case, self.failure)
        self.add(culprit=culprit)

    def narrow(self) -> NoAnswer | None:
        """Narrow a pair of releases by commits or nightlies."""
        if self.pair is None or not is_of_releases(self.pair):
            return NoAnswer(Cause.NEEDLESS, "its culprit is not a pair of releases")
        try:
            culprit = self.finder.narrow(self.case, self.pair, self.changed)
        except BadInput as error:
            if self.finder.repo is None:
                why = f"{error}; commits are searched with --repo"
                return NoAnswer(Cause.NEEDLESS, why)
            raise
        if culprit.after is None:
            return culprit.unanswered
        self.pair = self.finder.pair_of(culprit)
        releases = self.record.culprit
        if releases:
            culprit = replace(culprit, fixed=releases.fixed)
        self.add(culprit=culprit, release_culprit=releases)
        return None

    def confirm(self) -> NoAnswer | None:
        """Probe the other cases before and at the culprit."""
        others = [member for member in self.members if member.case != self.case.name]
        if self.pair is None:
            return NoAnswer(Cause.NEEDLESS, "its culprit is not known")
        if not others:
            return NoAnswer(Cause.NEEDLESS, "it has no other case")
        jobs = [
            ProbeJob(self.cases[member.case], ref)
            for member in others
            for ref in self.pair
        ]
        outcomes = {
            (probe.case.name, probe.revision.name): probe.outcome
            for probe in self.finder.engine.probe_all(jobs, "confirm the culprit")
        }
        confirmed: list[str] = []
        different: list[str] = []
        for member in others:
            before, at = (outcomes[member.case, ref.revision.name] for ref in self.pair)
            lacked_it = isinstance(before, Passed)
            if isinstance(before, Failed) and member.changed_failure:
                lacked_it = not before.flaky and not self._has_failure(before)
            if lacked_it and self._has_failure(at):
                confirmed.append(member.case)
            else:
                different.append(member.case)
        self.add(confirmed=confirmed, different=different)
        return None

    def _has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        if not isinstance(outcome, Failed) or outcome.flaky:
            return False
        return same_signature(self.failure)(outcome.failure)

    def attribute(self) -> NoAnswer | None:
        """Find the pass after which the IR of both toolchains diverges."""
        engine = self.finder.engine
        pair = self.pair or self.finder.pair_of(self.record.culprit)
        if pair is None:
            return NoAnswer(Cause.NEEDLESS, "its culprit is not known")
        has_passes = engine.compilers[self.case.compiler].passes is not None
        if self.failure.stage is not Stage.COMPILE or not has_passes:
            return NoAnswer(Cause.NEEDLESS, "it fails outside of printed passes")
        request = AttributionRequest(self.case, *pair, patience=_PATIENCE_SECONDS)
        attribution = attribute(engine, request)
        if attribution.unanswered is None:
            self.add(attribution=attribution)
        return attribution.unanswered

    def remedy(self) -> NoAnswer | None:
        """Find flags or input changes that work around the failure."""
        if self.record.failure is None:
            return NoAnswer(Cause.NEEDLESS, "nothing fails")
        good, bad = self.finder.pair
        if self.change is not CaseChangeKind.REGRESSED:
            good = None
        elif good is None and self.pair:
            good = self.pair[0]
        source = self.case.source
        request = RemedyRequest(
            self.case,
            bad,
            good,
            _REMEDIES_TRIED,
            [other for other in self.cases.values() if other.source == source],
            min(_REMEDY_SECONDS, self.seconds / 2),
        )
        remedies = find_remedies(self.finder.engine, request)
        self.add(remedies=list(remedies.remedies))
        return remedies.unanswered

    def reduce(self) -> NoAnswer | None:
        """Reduce the program, and write the folder of the reproducer."""
        assert self.files
        engine, (good, bad) = self.finder.engine, self.finder.pair
        if self.change is not CaseChangeKind.REGRESSED:
            good = None
        reduction = reduce_case(engine, ReductionRequest(self.case, bad, good))
        if reduction.unanswered is not None:
            return reduction.unanswered
        reproducer = reproducer_of(engine, reduction, bad)
        out = self.files.out / "reproducers"
        folder = self.files.write_reproducer(reproducer, out)
        versions = reproducer.reduction.evidence
        self.add(
            reproducer=f"reproducers/{folder.name}",
            size=reduction.size,
            draft=draft_of(reproducer),
            replays=replay_states(versions, reproducer.failure.signature),
        )
        return None


#: The cheap ones first; each may use what those before it found.
STEPS: Mapping[str, Step] = {
    "bisect": ClusterInvestigation.bisect,
    "narrow": ClusterInvestigation.narrow,
    "confirm": ClusterInvestigation.confirm,
    "attribute": ClusterInvestigation.attribute,
    "remedy": ClusterInvestigation.remedy,
    "reduce": ClusterInvestigation.reduce,
}


def _do_step(cluster: ClusterInvestigation, name: str, step: Step) -> StepResult:
    """Do a step within its time. After that, the engine's work is stopped as if the
    user had done it.
    """
    if cluster.seconds <= 0:
        return StepResult(name, "left", reason=_SPENT)
    engine = cluster.finder.engine
    over = threading.Event()

    def stop() -> None:
        over.set()
        engine.stop.set()

    began = time.monotonic()
    timer = threading.Timer(min(cluster.seconds, threading.TIMEOUT_MAX), stop)
    timer.daemon = True
    timer.start()
    try:
        problem = step(cluster)
    except Interrupted:
        if not over.is_set():
            raise
        problem = NoAnswer(Cause.TIME, _SPENT)
    except EnvironmentFailure as error:  # another run may succeed
        problem = NoAnswer(Cause.ENVIRONMENT, str(error))
    except BadInput as error:
        problem = NoAnswer(Cause.NOT_FOUND, str(error))
    except OSError:
        raise
    except Exception as error:
        problem = engine.internal_error(f"the step {name}", error)
    finally:
        timer.cancel()
        timer.join()
        if over.is_set():
            engine.stop.clear()
    taken = round(time.monotonic() - began, 2)
    if problem is None:
        return StepResult(name, "done", taken)
    # a search that fails sets it, too, to end its other compiles
    engine.stop.clear()
    status = _STATUSES.get(problem.cause, "failed")
    return StepResult(name, status, taken, problem.reason)


@dataclass
class Investigation:
    """An investigation in progress."""

    finder: OriginFinder
    cases: Mapping[str, Case]
    """All cases by name."""
    steps: Mapping[str, Step]
    """The steps to do, in this order."""
    budget: float | None = None
    """Seconds; None for no limit. When they are over, the step that runs is stopped."""
    again: str = ""
    """The command line that continues."""
    files: ReportFiles | None = None
    clusters: list[ClusterInvestigation] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def add_cluster(
        self, record: FailureCluster, results: Iterable[CaseResult]
    ) -> None:
        """Take in a cluster with its results among those of a night. A regression
        stands for it, the first that fails about as fast as any: times vary from night
        to night.
        """
        names = set(record.cases)
        members = [result for result in results if result.case in names]
        result = min(
            members,
            key=lambda member: (
                member.change is not CaseChangeKind.REGRESSED,
                member.seconds // _SLOWER_SECONDS,
            ),
        )
        cluster = ClusterInvestigation(
            self.finder,
            self.cases,
            replace(record, representative=result.case),
            self.cases[result.case],
            members,
            result.change,
            self.files,
        )
        if "reduce" in self.steps:
            draft = original_draft(
                self.finder.engine, cluster.case, self.finder.pair[1]
            )
            cluster.add(draft=draft)
        self.clusters.append(cluster)

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, cheap steps first; yield after each."""
        self._started = time.monotonic()
        waiting = self._waiting()
        while waiting:
            name, cluster = waiting[0]
            if self.budget is not None:
                # half of what is left is for this step of all clusters
                alike = sum(other == name for other, _ in waiting)
                rest = self.budget - (time.monotonic() - self._started)
                cluster.seconds = rest / 2 / alike
                if name == list(self.steps)[-1]:
                    cluster.seconds = rest
            self.finder.engine.progress.note(f"{name}: {cluster.case.name}")
            cluster.do(name, self.steps[name])
            if name == "confirm" and cluster.record.different:
                self._split(cluster)
            yield
            waiting = self._waiting()

    def _waiting(self) -> list[tuple[str, ClusterInvestigation]]:
        """Return the steps that are left with their clusters, the next one first."""
        return [
            (name, cluster)
            for name in self.steps
            for cluster in self.clusters
            if not cluster.ending(name)
        ]

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

    def _split(self, cluster: ClusterInvestigation) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        names = cluster.record.different
        parted = [member for member in cluster.members if member.case in names]
        rest = [member for member in cluster.members if member.case not in names]
        cluster.members = rest
        cluster.add(cases=[member.case for member in rest])
        key = cluster.record.key
        number = 1 + sum(other.record.key == key for other in self.clusters)
        part = key.cluster(names, parted[0].failure)
        self.add_cluster(replace(part, id=f"{part.id}.{number}"), parted)
