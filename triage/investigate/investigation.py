"""Investigate new failures: since when each is there, after which pass, what works
around it, and a small program that has it. The steps share a budget, cheap ones first.
What is known can be reported at any time. Compiles are cached, so that a later run soon
continues.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from triage.attribute.divergence import attribute
from triage.bisect.commits import plan_commits, release_end
from triage.bisect.history import known_range
from triage.bisect.line import BisectRequest, Candidate
from triage.bisect.releases import (
    bisect_between,
    plan_search,
    release_line,
    rev_text,
    versions_between,
)
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import (
    Search,
    find_change,
    find_changes,
    verdict_on_presence,
    whole_search,
)
from triage.execution.compare import same_signature, verdict_of
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    StepResult,
)
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failure, NoAnswer, Verdict
from triage.reduce.reproducer import (
    Reproducer,
    draft_of,
    original_draft,
    reproducer_of,
)
from triage.reduce.workflow import reduce_case
from triage.remedy.candidates import Situation
from triage.remedy.search import find_remedies
from triage.toolchains.registry import ToolchainRef

ToolchainPair = tuple[ToolchainRef, ToolchainRef]
"""The toolchain without the failure, and the one with it."""
_REMEDIES_TRIED = 60  # candidates
_REMEDY_SECONDS = 300.0  # a budget may allow less
_PATIENCE_SECONDS = 120.0  # for each compile that prints its IR
_SLOWER_SECONDS = 5.0  # that make a difference when a case is chosen
_UNKNOWN = NoAnswer(Cause.NEEDLESS, "its culprit is not known")
_SPENT = NoAnswer(Cause.TIME, "the budget is spent")
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

    work: Investigation
    record: FailureCluster
    case: Case
    members: Sequence[CaseResult] = ()
    """The results of all its cases in a night."""
    change: CaseChangeKind = CaseChangeKind.REGRESSED
    pair: ToolchainPair | None = None
    """The toolchains before and at the culprit, once they are known."""
    seconds: float = inf
    """What a step may take."""
    step_results: dict[str, StepResult] = field(default_factory=dict)
    """How each step ended that was done."""

    @property
    def failure(self) -> Failure:
        """The failure, once it is known."""
        assert self.record.failure
        return self.record.failure

    @property
    def good(self) -> ToolchainRef | None:
        """The baseline, or the toolchain before the culprit, if the case passes
        there.
        """
        if self.change is not CaseChangeKind.REGRESSED:
            return None
        return self.work.ends[0] or (self.pair[0] if self.pair else None)

    def add(self, **answers: Any) -> None:
        self.record = replace(self.record, **answers)

    def do_step(self, name: str, step: Step) -> None:
        """Do a step, and record how it ended. After its time, the engine's work is
        stopped as if the user had done it.
        """
        began = time.monotonic()
        engine = self.work.engine
        with _stopped_after(self.seconds, engine.stop) as timed_out:
            try:
                problem = step(self) if self.seconds > 0 else _SPENT
            except Interrupted:
                if not timed_out.is_set():
                    raise
                problem = _SPENT
            except EnvironmentFailure as error:  # another run may succeed
                problem = NoAnswer(Cause.ENVIRONMENT, str(error))
            except BadInput as error:
                problem = NoAnswer(Cause.NOT_FOUND, str(error))
            except OSError:
                raise
            except Exception as error:
                problem = engine.internal_error(f"the step {name}", error)
        seconds = round(time.monotonic() - began, 2)
        result = StepResult(name, "done", seconds)
        if problem:
            status = _STATUSES.get(problem.cause, "failed")
            result = StepResult(name, status, seconds, problem.reason)
        if problem or timed_out.is_set():
            # a search that fails sets it, too, to end its other compiles
            engine.stop.clear()
        self.step_results[name] = result

    # Since when

    def bisect(self) -> NoAnswer | None:
        """Bisect the failure along releases, or along the commits of the clone if an
        end is not a release; without a baseline along all releases. Then bisect its
        fix.
        """
        engine = self.work.engine
        old, new = self.work.ends
        before = rev_text(old) if old else None
        if before is None and not new.is_release:
            before = engine.registry.releases(new.family)[-1].revision.name
        repo = self.work.repo
        if old and _are_releases((old, new)):
            repo = None
        request = BisectRequest(engine, self.case, repo, repeats=3 if old else 1)
        culprit = self._bisect_along(plan_search(request, before, rev_text(new)))
        fix = self._find_fix()
        if fix:
            culprit = replace(culprit, fixed=fix.broke) if culprit.after else fix
        self.add(culprit=culprit)
        if culprit.after is None:
            return culprit.unanswered
        return None

    def narrow(self) -> NoAnswer | None:
        """Narrow a pair of releases by the commits of the clone, or else by
        nightlies.
        """
        if self.pair is None or not _are_releases(self.pair):
            return NoAnswer(Cause.NEEDLESS, "its culprit is not a pair of releases")
        request = BisectRequest(self.work.engine, self.case, self.work.repo)
        if self.work.repo is None:
            registry = request.engine.registry
            refs = versions_between(registry, *self.pair, nightlies=True)
            search = whole_search(release_line(request, refs))
        else:
            old, new = (release_end(request, ref) for ref in self.pair)
            search = plan_commits(request, old, new)
        reasons = [candidate.untestable for candidate in search.line.candidates]
        if reasons.count(None) <= len(self.pair):
            return NoAnswer(Cause.NEEDLESS, "no compiler is between its releases")
        culprit = self._bisect_along(search)
        if culprit.after is None:
            return culprit.unanswered
        releases = self.record.culprit
        if releases:
            culprit = replace(culprit, fixed=releases.fixed)
        self.add(culprit=culprit, release_culprit=releases)
        return None

    def pair_of(
        self, bisection: Bisection | None, candidates: Sequence[Candidate] = ()
    ) -> ToolchainPair | None:
        """Return the toolchains around a change, the good one first."""
        if not (bisection and bisection.before and bisection.after):
            return None
        refs = {candidate.revision.name: candidate.ref for candidate in candidates}
        resolve = self.work.engine.registry.resolve
        names = bisection.before.name, bisection.after.name
        before, after = (
            refs.get(name) or resolve(name, self.case.compiler) for name in names
        )
        return bisection.kind.in_order(before, after)

    def _bisect_along(self, search: Search | Bisection) -> Bisection:
        """Bisect, unless that has an answer already, and keep the pair of the
        culprit.
        """
        if isinstance(search, Bisection):
            self.pair = self.pair_of(search)
            return search
        if self.change is CaseChangeKind.CHANGED:  # another failure was there before
            bisection = find_change(search, self.failure)
        else:
            bisection = find_changes(search)
        self.pair = self.pair_of(bisection, search.line.candidates) or self.pair
        return bisection

    def _find_fix(self) -> Bisection | None:
        """Bisect the fix of a failure between the failing toolchain and the newest
        release, in a night the newest installed one; None if there is none.
        """
        registry = self.work.engine.registry
        old, new = self.work.ends
        if new.path is not None:  # its family may have no releases
            return None
        list_releases = registry.installed_releases if old else registry.releases
        releases = list_releases(new.family)
        if not releases or releases[-1].version <= new.version:
            return None
        request = BisectRequest(self.work.engine, self.case, kind=BisectKind.FIX)
        fix = bisect_between(request, rev_text(new), releases[-1].revision.name)
        if fix.after:
            return fix
        return None

    def confirm(self) -> NoAnswer | None:
        """Probe the other cases before and at the culprit."""
        others = [member for member in self.members if member.case != self.case.name]
        if self.pair is None:
            return _UNKNOWN
        if not others:
            return NoAnswer(Cause.NEEDLESS, "it has no other case")
        jobs = [
            ProbeJob(self.work.cases[member.case], ref)
            for member in others
            for ref in self.pair
        ]
        outcomes = [
            probe.outcome
            for probe in self.work.engine.probe_in_order(jobs, "confirm the culprit")
        ]
        match = same_signature(self.failure)
        confirmed = list[str]()
        different = list[str]()
        pairs = zip(others, outcomes[::2], outcomes[1::2], strict=True)
        for member, before, at in pairs:
            is_changed = member.change is CaseChangeKind.CHANGED
            judge = verdict_on_presence if is_changed else verdict_of
            verdicts = judge(before, match), verdict_of(at, match)
            names = confirmed if verdicts == (Verdict.GOOD, Verdict.BAD) else different
            names.append(member.case)
        self.add(confirmed=confirmed, different=different)
        return None

    # What it is about

    def attribute(self) -> NoAnswer | None:
        """Find the pass after which the IR of both toolchains diverges."""
        engine = self.work.engine
        pair = self.pair or self.pair_of(self.record.culprit)
        if pair is None:
            return _UNKNOWN
        has_passes = engine.compilers[self.case.compiler].passes is not None
        if self.failure.stage is not Stage.COMPILE or not has_passes:
            return NoAnswer(Cause.NEEDLESS, "it fails outside of printed passes")
        attribution = attribute(engine, self.case, *pair, _PATIENCE_SECONDS)
        if attribution.unanswered is None:
            self.add(attribution=attribution)
        return attribution.unanswered

    def remedy(self) -> NoAnswer | None:
        """Find flags or input changes that work around the failure."""
        siblings = [
            other
            for other in self.work.cases.values()
            if other.source == self.case.source
        ]
        situation = Situation(
            self.work.engine, self.case, self.work.ends[1], self.good, siblings
        )
        remedies = find_remedies(
            situation, _REMEDIES_TRIED, min(_REMEDY_SECONDS, self.seconds / 2)
        )
        self.add(remedies=list(remedies.remedies))
        return remedies.unanswered

    def reduce(self) -> NoAnswer | None:
        """Reduce the program, and write the folder of the reproducer."""
        engine = self.work.engine
        bad = self.work.ends[1]
        assert self.work.write_reproducer
        reduction = reduce_case(engine, self.case, bad, self.good)
        if reduction.unanswered is not None:
            return reduction.unanswered
        reproducer = reproducer_of(engine, reduction, bad)
        folder = self.work.write_reproducer(reproducer)
        self.add(
            reproducer=f"reproducers/{folder.name}",
            size=reduction.size,
            draft=draft_of(reproducer),
            replays=reproducer.reduction.replays,
        )
        return None


Step = Callable[[ClusterInvestigation], NoAnswer | None]
"""Adds what it finds out to a cluster, or returns why it finds nothing."""
#: The cheap ones first; each may use what those before it found.
STEPS: Mapping[str, Step] = {
    "bisect": ClusterInvestigation.bisect,
    "narrow": ClusterInvestigation.narrow,
    "confirm": ClusterInvestigation.confirm,
    "attribute": ClusterInvestigation.attribute,
    "remedy": ClusterInvestigation.remedy,
    "reduce": ClusterInvestigation.reduce,
}


@dataclass
class Investigation:
    """An investigation in progress."""

    engine: Engine
    ends: tuple[ToolchainRef | None, ToolchainRef]
    """The baseline, if there is one, and the toolchain with the failures."""
    cases: Mapping[str, Case]
    """All cases by name."""
    steps: Sequence[str] = ()
    """Those of `STEPS` to do, in their order."""
    repo: Path | None = None
    """A clone whose commits are searched between two releases, or instead of releases.
    """
    write_reproducer: Callable[[Reproducer], Path] | None = None
    """Writes the folder of a reproducer, and returns its path."""
    budget: float | None = None
    """Seconds; None for no limit. When they are over, the step that runs is stopped."""
    clusters: list[ClusterInvestigation] = field(default_factory=list)

    def add_cluster(
        self, record: FailureCluster, results: Iterable[CaseResult]
    ) -> None:
        """Take in a cluster with its results among those of a night. A regression
        stands for it, the first that fails about as fast as any: times vary from night
        to night.
        """
        members = [result for result in results if result.case in record.cases]
        chosen = min(
            members,
            key=lambda member: (
                member.change is not CaseChangeKind.REGRESSED,
                member.seconds // _SLOWER_SECONDS,
            ),
        )
        case = self.cases[chosen.case]
        cluster = ClusterInvestigation(self, record, case, members, chosen.change)
        cluster.add(representative=chosen.case)
        if "reduce" in self.steps:
            cluster.add(draft=original_draft(self.engine, case, self.ends[1]))
        self.clusters.append(cluster)

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, cheap steps first; yield after each."""
        started = time.monotonic()
        while waiting := self._waiting():
            name, cluster = waiting[0]
            if self.budget is not None:
                seconds_left = self.budget - (time.monotonic() - started)
                # half of what is left is for this step of all clusters
                alike = sum(other == name for other, _ in waiting)
                cluster.seconds = seconds_left / 2 / alike
                if name == self.steps[-1]:
                    cluster.seconds = seconds_left
            self.engine.progress.note(f"{name}: {cluster.case.name}")
            cluster.do_step(name, STEPS[name])
            if name == "bisect" and cluster.record.culprit is None:
                ends = [ref for ref in self.ends if ref]
                known = known_range(self.engine, cluster.case, ends, cluster.failure)
                cluster.add(culprit=known)
            if name == "confirm" and cluster.record.different:
                self._split(cluster)
            yield

    def _waiting(self) -> list[tuple[str, ClusterInvestigation]]:
        """Return the steps that are left with their clusters, the next one first."""
        return [
            (name, cluster)
            for name in self.steps
            for cluster in self.clusters
            if name not in cluster.step_results
        ]

    def records(self) -> list[FailureCluster]:
        """Return the clusters with what is known; a step that was not begun is left."""
        records = []
        for cluster in self.clusters:
            steps = [
                cluster.step_results.get(step)
                or StepResult(step, "left", reason="not begun")
                for step in self.steps
            ]
            records.append(replace(cluster.record, steps=steps))
        return records

    def _split(self, cluster: ClusterInvestigation) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        names = cluster.record.different
        moved = [member for member in cluster.members if member.case in names]
        cluster.members = [item for item in cluster.members if item not in moved]
        cluster.add(cases=[member.case for member in cluster.members])
        key = cluster.record.key
        number = 1 + sum(other.record.key == key for other in self.clusters)
        part = key.cluster(names, moved[0].failure)
        self.add_cluster(replace(part, id=f"{part.id}.{number}"), moved)


@contextmanager
def _stopped_after(seconds: float, stop: threading.Event) -> Iterator[threading.Event]:
    """Set `stop` after some seconds, unless the block ends before. Yield an event that
    is set with it.
    """
    timed_out = threading.Event()

    def stop_work() -> None:
        timed_out.set()
        stop.set()

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), stop_work)
    timer.daemon = True
    timer.start()
    try:
        yield timed_out
    finally:
        timer.cancel()
        timer.join()


def _are_releases(pair: ToolchainPair) -> bool:
    """Return whether both are releases. Between others, `bisect` already searches every
    nightly and commit.
    """
    return all(ref.is_stable for ref in pair)
