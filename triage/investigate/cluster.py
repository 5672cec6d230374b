"""The steps that find out about one new failure: since when it is there, after which
pass, what works around it, and a small program that has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from triage.attribute.divergence import AttributionRequest, attribute
from triage.bisect.commits import plan_commits, release_end
from triage.bisect.history import known_range
from triage.bisect.line import BisectRequest
from triage.bisect.plan import bisect_between
from triage.bisect.releases import release_line, rev_text, versions_between
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.bisect.search import Search, find_change, find_changes, whole_search
from triage.execution.compare import same_signature
from triage.execution.engine import Engine
from triage.execution.number_judge import Metric, engine_with_judge
from triage.execution.task import ProbeJob, in_job_order
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    ReportFiles,
    StepResult,
)
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Outcome, Passed
from triage.reduce.replay import replay_states
from triage.reduce.reproducer import draft_of, reproducer_of
from triage.reduce.workflow import reduce_case
from triage.remedy.candidates import RemedyRequest
from triage.remedy.search import find_remedies
from triage.toolchains.registry import ToolchainRef

ToolchainPair = tuple[ToolchainRef, ToolchainRef]
"""The toolchain without the failure, and the one with it."""
_REMEDIES_TRIED = 60  # candidates
_REMEDY_SECONDS = 300.0  # a budget may allow less
_PATIENCE_SECONDS = 120.0  # for each compile that prints its IR
_SPENT = "the budget is spent"
#: The status of a step without an answer; `failed` for other causes.
_STATUSES = {
    Cause.TIME: "left",
    Cause.ENVIRONMENT: "left",
    Cause.TOOLCHAIN: "left",
    Cause.NEEDLESS: "skipped",
}


@dataclass
class Scope:
    """Where failures are investigated."""

    engine: Engine
    ends: tuple[ToolchainRef | None, ToolchainRef]
    """The baseline, if there is one, and the toolchain with the failures."""
    cases: Mapping[str, Case]
    """All cases by name."""
    repo: Path | None = None
    """A clone whose commits are searched between two releases, or instead of releases.
    """
    files: ReportFiles | None = None
    searched: dict[str, ToolchainRef] = field(default_factory=dict)
    """All toolchains that were searched, by name."""


@dataclass(eq=False)
class ClusterInvestigation:
    """A cluster, and the case that stands for it. A step adds its answer to the record,
    and returns why it has none.
    """

    scope: Scope
    record: FailureCluster
    case: Case
    members: Sequence[CaseResult] = ()
    """The results of all its cases in a night."""
    change: CaseChangeKind = CaseChangeKind.REGRESSED
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
    def good(self) -> ToolchainRef | None:
        """The baseline, if the case passes there."""
        return self.scope.ends[0] if self._has_regressed else None

    @property
    def _has_regressed(self) -> bool:
        return self.change is CaseChangeKind.REGRESSED

    def add(self, **answers: Any) -> None:
        self.record = replace(self.record, **answers)

    def ending(self, name: str) -> StepResult | None:
        """Return how a step ended, if it was done."""
        endings = {ending.step: ending for ending in self.record.steps}
        return endings.get(name)

    def do(self, name: str, step: Step) -> None:
        """Do a step within its time, and record how it ended."""
        began = time.monotonic()
        problem = self._do_in_time(name, step)
        status, reason = "done", None
        if problem:
            # a search that fails sets it, too, to end its other compiles
            self.scope.engine.stop.clear()
            status, reason = _STATUSES.get(problem.cause, "failed"), problem.reason
        taken = round(time.monotonic() - began, 2)
        ending = StepResult(name, status, taken, reason)
        self.add(steps=[*self.record.steps, ending])
        record = self.record
        if name == "bisect" and problem and record.failure and not record.culprit:
            ends = [ref for ref in self.scope.ends if ref]
            known = known_range(self.scope.engine, self.case, ends, record.failure)
            self.add(culprit=known)

    def _do_in_time(self, name: str, step: Step) -> NoAnswer | None:
        """Do a step. After its time, the engine's work is stopped as if the user had
        done it.
        """
        if self.seconds <= 0:
            return NoAnswer(Cause.TIME, _SPENT)
        engine = self.scope.engine
        over = threading.Event()

        def stop() -> None:
            over.set()
            engine.stop.set()

        timer = threading.Timer(min(self.seconds, threading.TIMEOUT_MAX), stop)
        timer.daemon = True
        timer.start()
        try:
            return step(self)
        except Interrupted:
            if not over.is_set():
                raise
            return NoAnswer(Cause.TIME, _SPENT)
        except EnvironmentFailure as error:  # another run may succeed
            return NoAnswer(Cause.ENVIRONMENT, str(error))
        except BadInput as error:
            return NoAnswer(Cause.NOT_FOUND, str(error))
        except OSError:
            raise
        except Exception as error:
            return engine.internal_error(f"the step {name}", error)
        finally:
            timer.cancel()
            timer.join()
            if over.is_set():
                engine.stop.clear()

    # Since when

    def bisect(self) -> NoAnswer | None:
        """Bisect the failure along releases, or along the commits of the clone if an
        end is not a release; without a baseline along all releases. Then bisect its
        fix.
        """
        engine, (old, new) = self.scope.engine, self.scope.ends
        if old is None:
            before = None
            if not new.is_release:
                before = engine.registry.releases(new.family)[-1].revision.name
            request = BisectRequest(engine, self.case, repeats=1)
            culprit = bisect_between(request, before, rev_text(new))
        elif self.scope.repo is not None and not _are_releases((old, new)):
            culprit = self._bisect_along(self._commits((old, new)))
        else:
            culprit = self._bisect_along(self._releases((old, new)))
        self.pair = self.pair_of(culprit)
        fix = self._find_fix()
        if fix:
            culprit = replace(culprit, fixed=fix.broke) if culprit.after else fix
        self.add(culprit=culprit)
        return culprit.unanswered if culprit.after is None else None

    def narrow(self) -> NoAnswer | None:
        """Narrow a pair of releases by the commits that a source has compilers of, or
        else by nightlies.
        """
        if self.pair is None or not _are_releases(self.pair):
            return NoAnswer(Cause.NEEDLESS, "its culprit is not a pair of releases")
        search = None
        if self.scope.repo is not None:
            commits = self._commits(self.pair)
            untestable = [candidate.untestable for candidate in commits.line.candidates]
            if untestable.count(None) > len(self.pair):
                search = commits
        if search is None:
            search = self._releases(self.pair, nightlies=True)
        if len(search.line) == len(self.pair):
            names = " and ".join(ref.revision.name for ref in self.pair)
            why = f"nothing between {names} has a compiler"
            if self.scope.repo is not None:
                return NoAnswer(Cause.NOT_FOUND, why)
            why += "; commits are searched with --repo"
            return NoAnswer(Cause.NEEDLESS, why)
        culprit = self._bisect_along(search)
        if culprit.after is None:
            return culprit.unanswered
        self.pair = self.pair_of(culprit)
        releases = self.record.culprit
        if releases:
            culprit = replace(culprit, fixed=releases.fixed)
        self.add(culprit=culprit, release_culprit=releases)
        return None

    def pair_of(self, bisection: Bisection | None) -> ToolchainPair | None:
        """Return the toolchains around a change, the good one first."""
        if not (bisection and bisection.before and bisection.after):
            return None
        resolve = self.scope.engine.registry.resolve
        before, after = (
            self.scope.searched.get(revision.name)
            or resolve(revision.name, self.case.compiler)
            for revision in (bisection.before, bisection.after)
        )
        return bisection.kind.in_order(before, after)

    def _request(self) -> BisectRequest:
        return BisectRequest(self.scope.engine, self.case, self.scope.repo)

    def _commits(self, pair: ToolchainPair) -> Search:
        request = self._request()
        old, new = (release_end(request, ref) for ref in pair)
        return plan_commits(request, old, new)

    def _releases(self, pair: ToolchainPair, *, nightlies: bool = False) -> Search:
        registry = self.scope.engine.registry
        refs = versions_between(registry, *pair, nightlies=nightlies)
        return whole_search(release_line(self._request(), refs))

    def _bisect_along(self, search: Search) -> Bisection:
        for candidate in search.line.candidates:
            self.scope.searched[candidate.revision.name] = candidate.ref
        if self.change is CaseChangeKind.CHANGED:  # another failure was there before
            return find_change(search, self.failure)
        return find_changes(search)

    def _find_fix(self) -> Bisection | None:
        """Bisect the fix of a failure between the failing toolchain and the newest
        release, in a night the newest installed one; None if there is none.
        """
        registry, (old, new) = self.scope.engine.registry, self.scope.ends
        if new.path is not None:  # its family may have no releases
            return None
        releases = registry.installed_releases(new.family)
        if old is None:
            releases = registry.releases(new.family)
        if not releases or releases[-1].version <= new.version:
            return None
        request = BisectRequest(self.scope.engine, self.case, kind=BisectKind.FIX)
        fix = bisect_between(request, rev_text(new), releases[-1].revision.name)
        return fix if fix.after else None

    def confirm(self) -> NoAnswer | None:
        """Probe the other cases before and at the culprit."""
        others = [member for member in self.members if member.case != self.case.name]
        if self.pair is None:
            return NoAnswer(Cause.NEEDLESS, "its culprit is not known")
        if not others:
            return NoAnswer(Cause.NEEDLESS, "it has no other case")
        jobs = [
            ProbeJob(self.scope.cases[member.case], ref)
            for member in others
            for ref in self.pair
        ]
        probes = self.scope.engine.probe_all(jobs, "confirm the culprit")
        outcomes = [probe.outcome for probe in in_job_order(jobs, probes)]
        confirmed: list[str] = []
        different: list[str] = []
        pairs = zip(others, outcomes[::2], outcomes[1::2], strict=True)
        for member, before, at in pairs:
            lacked_it = isinstance(before, Passed)
            if isinstance(before, Failed) and member.change is CaseChangeKind.CHANGED:
                lacked_it = not before.flaky and not self._has_failure(before)
            is_alike = lacked_it and self._has_failure(at)
            names = confirmed if is_alike else different
            names.append(member.case)
        self.add(confirmed=confirmed, different=different)
        return None

    def _has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        if not isinstance(outcome, Failed) or outcome.flaky:
            return False
        return same_signature(self.failure)(outcome.failure)

    # What it is about

    def attribute(self) -> NoAnswer | None:
        """Find the pass after which the IR of both toolchains diverges."""
        engine = self.scope.engine
        pair = self.pair or self.pair_of(self.record.culprit)
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
        good = self.good
        if self._has_regressed and self.pair:
            good = good or self.pair[0]
        source = self.case.source
        cases = self.scope.cases.values()
        request = RemedyRequest(
            self.case,
            self.scope.ends[1],
            good,
            _REMEDIES_TRIED,
            [other for other in cases if other.source == source],
            min(_REMEDY_SECONDS, self.seconds / 2),
        )
        remedies = find_remedies(self.scope.engine, request)
        self.add(remedies=list(remedies.remedies))
        return remedies.unanswered

    def reduce(self) -> NoAnswer | None:
        """Reduce the program, and write the folder of the reproducer."""
        files, engine, bad = self.scope.files, self.scope.engine, self.scope.ends[1]
        assert files
        reduction = reduce_case(engine, self.case, bad, self.good)
        if reduction.unanswered is not None:
            return reduction.unanswered
        reproducer = reproducer_of(engine, reduction, bad)
        folder = files.write_reproducer(reproducer, files.out / "reproducers")
        versions = reproducer.reduction.evidence
        self.add(
            reproducer=f"reproducers/{folder.name}",
            size=reduction.size,
            draft=draft_of(reproducer),
            replays=replay_states(versions, reproducer.failure.signature),
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


def find_slower(scope: Scope, case: Case, function: str, budget: float) -> Bisection:
    """Bisect the change that made a function of a case run slower.

    Each candidate is measured for `budget` seconds. One whose interval reaches the
    threshold is never named.
    """
    old, new = scope.ends
    assert old is not None
    metric = Metric("run_seconds", function)
    record = FailureCluster(signature="", cases=[case.name])
    try:
        with engine_with_judge(
            scope.engine, case, (old, new), metric, budget
        ) as judging:
            slower = ClusterInvestigation(replace(scope, engine=judging), record, case)
            slower.bisect()
            if scope.repo:
                slower.narrow()
    except BadInput as error:  # such as two toolchains that do not differ any more
        why = NoAnswer(Cause.NOT_FOUND, str(error))
        kind = BisectKind.REGRESSION
        return Bisection(case.name, kind, Answer.INCONCLUSIVE, unanswered=why)
    assert slower.record.culprit
    return slower.record.culprit


def _are_releases(pair: ToolchainPair) -> bool:
    """Return whether both are releases. Between others, `bisect` already searches every
    nightly and commit.
    """
    return all(ref.is_stable for ref in pair)
