"""Search a range for the candidate that brought a change: probe, judge, confirm, report."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.bisect.belief import EXACT, FLAKY, Belief, SuspectBlock
from triage.bisect.candidates import BisectRange
from triage.bisect.choose import next_probes, untestable_odds
from triage.bisect.pass_evidence import PassEvidence
from triage.bisect.prior import Clues
from triage.bisect.result import (
    CONFIDENCE,
    Answer,
    Bisection,
    BisectKind,
    OtherFailure,
    ReleaseBranch,
    Side,
    Suspect,
    Transition,
    UntestableRevision,
    unexpected,
)
from triage.execution.engine import Engine
from triage.execution.judge import Match, same_signature, verdict_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Cause, Compiled, Failed, Failure, Outcome, Untestable, Verdict
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

_LEAST_SECONDS = 0.05  # of a compile that has not been measured yet
_MOST_ROUNDS = 40  # searches for another pair after a confirmation that failed
_MOST_FLAKY_PROBES = 400  # of a range whose probes contradict themselves
_WORTH_COMPARING = 8  # candidates; fewer need three probes at most
_SLOWER = 6.0  # factor by which a compile slows down when it prints its IR; comparing two may save one probe
_MOST_CONFIRMATIONS = 5
_FLAKY_RATE = 0.2  # wrong probes that are assumed at least on both sides, once probes have disagreed
_HIGHEST_RATES = 0.9  # of both sides together; with more, no number of probes tells them apart
_END_PROBES = 8  # of the failing end at least, to know how often it passes, once probes have disagreed
_END_REPEATS = 3  # probes of an end that is on the wrong side at first, if the second probe differs
_TESTED_PAIRS = 5  # candidate pairs that a search with flaky probes may try to confirm; each must rarely be a wrong one
_SAME_ERRORS = 3  # builds that fail in the same way before those next to both ends are tried
_NOTED = 20  # suspects with details
_OF_A_COMMIT = re.compile(r"[0-9a-f]{7,40}|/\S+|\d+")  # what differs between equal errors of two commits


@dataclass(slots=True)
class BisectSearch:
    """A search in progress: what was probed and what follows from it.

    match: makes, from the failure that is bisected, the test that recognises it. judge: turns an outcome and that test into a
    verdict. compare: compares the passes of both ends, as evidence about the commit.
    untestable_outside: probed while the ends were looked for. foreign: first probed by a machine that is not trusted.
    """

    runner: Engine
    case: Case
    range: BisectRange
    kind: BisectKind = BisectKind.REGRESSION
    match: Callable[[Failure], Match] = same_signature
    judge: Callable[[Outcome, Match], Verdict] = verdict_of
    confidence: float = CONFIDENCE
    compare: Callable[[ToolchainRef, ToolchainRef], PassEvidence | None] | None = None
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)
    belief: Belief | None = None
    failure: Failure | None = None
    evidence: PassEvidence | None = None
    untestable_outside: tuple[UntestableRevision, ...] = ()
    broke: Transition | None = None
    fixed: Transition | None = None
    reason: str | None = None
    cause: Cause | None = None
    probes: int = 0
    rounds: int = 0
    cached: int = 0
    compile_seconds: float = _LEAST_SECONDS
    foreign: set[str] = field(default_factory=set)
    told: str = ""  # the last line of progress
    started: float = field(default_factory=time.monotonic)

    @property
    def last(self) -> int:
        """Index of the new end."""
        return len(self.range) - 1

    @property
    def clues(self) -> Clues:
        """What the failure, the case and the passes say about the culprit."""
        assert self.failure is not None
        clues = Clues.of(self.failure, self.case.target.backend)
        return self.evidence.added_to(clues) if self.evidence else clues

    @property
    def leading(self) -> SuspectBlock:
        """The most likely suspects that cannot be separated."""
        assert self.belief is not None
        return self.belief.leading(self.range.closed())

    @property
    def pair(self) -> tuple[tuple[int, Side], tuple[int, Side]]:
        """The two candidates around the leading suspects, each with the side that it must be on."""
        return (self.leading.first - 1, Side.OLD), (self.leading.last, Side.NEW)

    @property
    def resolved(self) -> bool:
        """Whether the leading suspects are likely enough, with a probe on each side of them."""
        return self.belief is not None and self.belief.is_resolved(self.confidence, self.range.closed())

    @property
    def contradicts(self) -> bool:
        """Whether a candidate has shown both sides."""
        return self.failure is not None and any(all(self.shown(index)) for index in self.outcomes)

    @property
    def is_inverted(self) -> bool:
        """Whether a candidate on the new side is older than one on the old side: a wrong probe, or a second change."""
        shown = {index: self.shown(index) for index in self.outcomes}
        oldest_new = min((index for index, (_, new) in shown.items() if new), default=self.last)
        return any(old and index > oldest_new for index, (old, _) in shown.items())

    def shown(self, index: int) -> tuple[int, int]:
        """How often a candidate was on the old and on the new side."""
        sides = [self.side(outcome) for outcome in self.outcomes.get(index, [])]
        return sides.count(Side.OLD), sides.count(Side.NEW)

    @property
    def rates(self) -> tuple[float, float]:
        """How often a candidate of the new side shows the old one at most, and the other way round: what the two ends show."""
        old, new = self.shown(0), self.shown(self.last)
        return _highest_rate(new[0], sum(new)), _highest_rate(old[1], sum(old))

    def proof(self, index: int, side: Side) -> float:
        """How well the probes of a candidate prove its side: 1 or more is enough, below 0 they rather show the other one.

        While no probe contradicts another, it must be on its side once more than it is confirmed. Otherwise its results must be
        so much likelier on that side that chance confirms a wrong pair less often than the confidence allows. Where the
        failure comes and goes after the change, many passes are needed before a candidate counts as good.
        Results of machines that are not trusted prove nothing.
        """
        old, new = self.shown(index)
        skipped = len(self.outcomes.get(index, [])) - old - new
        trusted = -1 if self.range.revision(index).name in self.foreign else 0
        if not (self.contradicts or self.is_inverted):
            lead = (old - new if side is Side.OLD else new - old) - skipped + trusted
            return lead / (1 + confirmations(self.confidence))
        # What the pair itself shows counts too: were it right, its candidates would err as often as the ends.
        missed, false = self.rates
        (before, _), (after, _) = self.pair
        false = min(max(false, _highest_rate(self.shown(before)[1], sum(self.shown(before)))), 0.5)
        missed = min(max(missed, _highest_rate(self.shown(after)[0], sum(self.shown(after)))), 0.98 - false)
        if side is Side.OLD:
            log_odds = (old + trusted) * math.log((1 - false) / missed) + (new + skipped) * math.log(false / (1 - missed))
        else:
            log_odds = (new + trusted) * math.log((1 - missed) / false) + (old + skipped) * math.log(missed / (1 - false))
        return log_odds / -math.log(max(1 - self.confidence, 1e-6) / (2 * _TESTED_PAIRS))

    @property
    def times(self) -> int:
        """How often each of a pair is probed again at once, while no candidate contradicts itself."""
        if not self.is_inverted:
            return confirmations(self.confidence)
        needed = -math.log(max(1 - self.confidence, 1e-6) / (2 * _TESTED_PAIRS))
        return math.ceil(needed / math.log((1 - _FLAKY_RATE) / _FLAKY_RATE)) - 1

    def begin(self) -> bool:
        """Verify both ends and weigh the candidates between them; False when the search cannot begin (see `reason`)."""
        self.ask([index for index in (0, self.last) if index not in self.outcomes])
        for index, side in ((0, Side.OLD), (self.last, Side.NEW)):
            if not self.verify_end(index, side) and not self._verify_again(index, side):
                return False
        outcome = self.outcomes[self.last if self.kind.failing is Side.NEW else 0][-1]
        assert isinstance(outcome, Failed)
        self.failure = outcome.failure
        self.runner.progress.note(f"{self.case.name}: bisecting {self.failure.failure_class}: {self.failure.headline}")
        if (hint := unexpected(self.case, self.failure)) is not None:
            self.runner.progress.note(hint)
        if self.compare is not None and self._worth_comparing():
            good, bad = (0, self.last) if self.kind.failing is Side.NEW else (self.last, 0)
            self.evidence = self.compare(self.range.ref(good), self.range.ref(bad))
        self.rebuild()
        return True

    def rebuild(self) -> None:
        """Start the belief anew from the outcomes of the candidates between the ends."""
        belief = Belief.from_weights(self.range.weights(self.clues))
        self.belief = belief.observe_all(
            (index, self.side(outcome)) for index, outcomes in self.outcomes.items() for outcome in outcomes
        )

    def verify_end(self, index: int, side: Side) -> bool:
        """Whether a candidate can be this end of the range; sets `reason` and `cause` when it cannot."""
        outcome = self.outcomes[index][-1]
        self.reason = wrong_end(self.range.revision(index).name, outcome, side, self.kind)
        self.cause = outcome.cause if isinstance(outcome, Untestable) else None
        return self.reason is None

    def _verify_again(self, index: int, side: Side) -> bool:
        """Whether an end on the wrong side is flaky rather than wrong: the next probe differs, and most of those after it."""
        is_right = []
        for _ in range(_END_REPEATS):
            if isinstance(self.outcomes[index][-1], Untestable):
                return False
            self.ask([index], fresh=True)
            is_right.append(self.verify_end(index, side))
            if not is_right[0]:
                return False
        if not is_right[-1] or 2 * sum(is_right) <= len(is_right) + 1:
            self.reason = _flaky_end(self.range.revision(index).name)
            return False
        return True

    def _worth_comparing(self) -> bool:
        """Whether comparing passes costs less than the probes it may save: it compiles twice again, and slowly."""
        seconds = sorted(value for value in self.range.seconds() if math.isfinite(value))
        probe = (seconds[len(seconds) // 2] if seconds else 0.0) + self.compile_seconds
        return self.last >= _WORTH_COMPARING and probe >= _SLOWER * 2 * self.compile_seconds

    def choose(self) -> tuple[int, ...]:
        """The candidates to probe next; empty when the answer is final or no probe can help any more."""
        assert self.belief is not None
        if self.resolved or self.reason:
            return ()
        if self._same_error() and (outermost := self._outermost()):
            return outermost
        odds = untestable_odds(self.belief)
        odds[list(self.range.closed())] = 1.0
        return next_probes(self.belief, self.range.seconds() + self.compile_seconds, self.runner.jobs, untestable=odds)

    def ask(self, indices: Iterable[int], *, fresh: bool = False, times: int = 1) -> None:
        """Probe candidates at once, each `times` times, and take in the outcomes. fresh: ignore the cache."""
        wanted: dict[tuple[Path, str], tuple[ProbeJob, list[int]]] = {}
        for index in indices:
            case, ref = self.range.case(index, self.case), self.range.ref(index)
            if isinstance(case, Untestable):
                self.take(index, case)
                continue
            # Candidates may share their compiler, and their input as well. A cached result is no second one.
            job = ProbeJob(case, ref, fresh or index in self.outcomes)
            wanted.setdefault(_key(case, ref.revision), (job, []))[1].append(index)
        if not wanted or times < 1:
            return
        self.rounds += 1
        jobs = [replace(job, fresh=job.fresh or turn > 0) for turn in range(times) for job, _ in wanted.values()]
        for probe in self.runner.probe_all(jobs, f"bisect {self.case.name}"):
            self.probes += 1
            self.cached += probe.cached
            self.compile_seconds = max(self.compile_seconds, probe.measured.seconds)
            for index in wanted[_key(probe.case, probe.revision)][1]:
                self.take(index, probe.outcome)
                if probe.foreign:
                    self.foreign.add(self.range.revision(index).name)
                if (
                    isinstance(probe.outcome, Untestable)
                    and probe.outcome.cause is Cause.ENVIRONMENT
                    and not probe.measured.seconds
                ):
                    self.reason, self.cause = f"{probe.revision.name}: {probe.outcome.reason}", Cause.ENVIRONMENT
        if (error := self._same_error()) and not self._outermost():
            self.reason, self.cause = f"no compiler could be obtained between both ends: {error}", Cause.ENVIRONMENT

    def _same_error(self) -> str | None:
        """The error with which every compiler between the ends could not be obtained, once it was seen several times."""
        inside = [outcomes[-1] for index, outcomes in self.outcomes.items() if 0 < index < self.last]
        errors = [outcome.reason for outcome in inside if isinstance(outcome, Untestable) and outcome.cause is Cause.TOOLCHAIN]
        is_same = len({_OF_A_COMMIT.sub("", error) for error in errors}) == 1
        return errors[-1] if len(inside) == len(errors) >= _SAME_ERRORS and is_same else None

    def _outermost(self) -> tuple[int, ...]:
        """The candidates next to both ends, without those that were probed."""
        closed = self.range.closed()
        inside = [index for index in range(1, self.last) if index not in closed]
        return tuple(dict.fromkeys(index for index in inside[:1] + inside[-1:] if index not in self.outcomes))

    def take(self, index: int, outcome: Outcome) -> None:
        """Take in one outcome."""
        self.outcomes.setdefault(index, []).append(outcome)
        if self.belief is not None:
            self.belief = self.belief.observe(index, self.side(outcome))

    def verdict(self, outcome: Outcome) -> Verdict:
        """What an outcome says about the failure that is bisected."""
        assert self.failure is not None
        return self.judge(outcome, self.match(self.failure))

    def side(self, outcome: Outcome) -> Side | None:
        """The side of the change that an outcome shows; None when it is skipped."""
        return self.kind.side(self.verdict(outcome))


def run_search(search: BisectSearch, report: Callable[[BisectSearch], None] = lambda _: None) -> Bisection:
    """Run a search to its end. `report` is called after each round of probes."""
    if search.belief is None and not search.begin():
        return answer(search)
    report(search)
    for _ in range(_MOST_ROUNDS):
        while (chosen := search.choose()) and search.probes < _MOST_FLAKY_PROBES:
            search.ask(chosen)
            report(search)
        if not search.resolved or confirm(search) or search.reason:
            break
        report(search)
    return _search_from_original(search, answer(search), report)


def _search_from_original(search: BisectSearch, bisection: Bisection, report: Callable[[BisectSearch], None]) -> Bisection:
    """Search on where a commit of the old end's branch is the culprit, and the new end has its original or merged it.

    That end has the new state all the same, so that a later commit brought the change. The answer stays as it is where the
    original has not the old state.
    """
    start = search.range.original(search.leading.last) if bisection.status is Answer.CULPRIT else None
    if start is None or start == search.last:
        return bisection
    names = (search.range.revision(index).name for index in (0, start, search.last))
    search.runner.progress.note("{} has the change of {}, which {} contains: searching from there".format(*names))
    later = {index - start: list(outcomes) for index, outcomes in search.outcomes.items() if index >= start}
    part = replace(search, range=search.range.starting_at(start), outcomes=later, belief=None, failure=None)
    further = run_search(part, report)
    if further.status is Answer.INCONCLUSIVE:
        return replace(bisection, probes=part.probes, rounds=part.rounds, cached=part.cached)
    return further


def confirm(search: BisectSearch) -> bool:
    """Probe the pair around the leading suspects again, ignoring the cache; whether their own probes prove both sides.

    A candidate that contradicts itself shows that probes are not reliable. Both ends then show how often a probe is wrong; the
    belief weighs probes by that, and both candidates are probed until their sides are proved. A candidate that rather shows the
    other side sends the search elsewhere. An end that does makes the search inconclusive.
    """
    assert search.belief is not None
    pair = search.pair
    search.ask([index for index, _ in pair if index not in search.outcomes])  # known from a journal only
    if not search.contradicts:
        search.ask([index for index, _ in pair if search.range.revision(index).name in search.foreign], fresh=True)
        search.ask([index for index, _ in pair], fresh=True, times=search.times)
        # A failure that comes and goes since the culprit shows both sides at the failing end.
        failing = search.last if search.kind.failing is Side.NEW else 0
        search.ask([failing], fresh=True, times=2 * search.times + 1 - sum(search.shown(failing)))
    while search.contradicts and search.probes < _MOST_FLAKY_PROBES and not search.reason:
        failing = search.last if search.kind.failing is Side.NEW else 0
        needed = max(_END_PROBES, *(sum(search.shown(index)) for index, _ in pair))
        search.ask([failing], fresh=True, times=needed - sum(search.shown(failing)))
        missed, false = search.rates
        if missed + false > _HIGHEST_RATES:
            flaky = search.last if missed > false else 0
            search.reason = _flaky_end(search.range.revision(flaky).name)
            return False
        if search.belief.noise is EXACT:
            search.belief = search.belief.with_noise(FLAKY)
        unclear = [index for index, side in pair if search.proof(index, side) < 1]
        if not unclear or not search.resolved or search.pair != pair:
            break
        search.ask(unclear, fresh=True)
    return is_confirmed(search)


def confirmations(confidence: float) -> int:
    """How often a pair is probed again while every probe is trusted, for a culprit of this confidence.

    Assume that one probe in five is wrong. About every second search then meets a wrong probe, and each confirmation repeats it
    one time in five.
    """
    allowed = 2 * (1 - confidence)
    if allowed <= 0:
        return _MOST_CONFIRMATIONS
    return min(_MOST_CONFIRMATIONS, max(1, math.ceil(math.log(allowed) / math.log(_FLAKY_RATE) - 1e-9)))


def _highest_rate(wrong: int, probes: int) -> float:
    """The rate of wrong probes that a number of them leaves possible (by one standard error), at least one in five."""
    if not wrong:
        return _FLAKY_RATE
    rate = (wrong + 1) / (probes + 2)
    return max(_FLAKY_RATE, rate + math.sqrt(rate * (1 - rate) / (probes + 3)))


def is_confirmed(search: BisectSearch) -> bool:
    """Whether both candidates of the pair were probed again and proved to be on their sides."""
    return search.resolved and all(search.proof(index, side) >= 1 for index, side in search.pair)


def wrong_end(name: str, outcome: Outcome, side: Side, kind: BisectKind) -> str | None:
    """Why a revision cannot be this end of the range with this outcome; None when it can."""
    match outcome:
        case Untestable(reason=reason):
            return f"{name} cannot be tested: {reason}"
        case Failed(flaky=True):
            return _flaky_end(name)
        case Failed(failure=failure) if side is not kind.failing:
            older = "an older" if side is Side.OLD else "a newer"
            return f"expected {name} to compile, but it fails: {failure.headline}; pass --good with {older} revision"
        case Compiled() if side is kind.failing:
            return f"expected {name} to fail, but it compiles; pass --bad with a revision that fails"
    return None


def _flaky_end(name: str) -> str:
    return f"{name} is flaky: repeated probes disagree"


def answer(search: BisectSearch) -> Bisection:
    """Report what the search knows so far."""
    inconclusive = Bisection(
        case=search.case.name,
        kind=search.kind,
        status=Answer.INCONCLUSIVE,
        failure=search.failure,
        probes=search.probes,
        rounds=search.rounds,
        cached=search.cached,
        halving_probes=math.ceil(math.log2(search.last)) if search.last > 1 else 0,
        obtained=search.range.obtained(),
        seconds=round(time.monotonic() - search.started, 1),
        untestable=_untestable(search),
        other_failures=_other_failures(search),
        reason=search.reason,
        cause=search.cause,
        hint=unexpected(search.case, search.failure) if search.failure else None,
        broke=search.broke,
        fixed=search.fixed,
    )
    if search.belief is None or search.reason:
        return inconclusive
    chances = search.belief.probabilities
    confirmed = is_confirmed(search)
    if search.resolved:
        block = search.leading
        indices = [index for index in range(block.first, block.last + 1) if chances[index] > 0]
        low, high = block.first - 1, block.last
    else:
        indices = list(search.belief.credible(search.confidence))
        low, high = search.belief.bounds
    total = float(sum(chances[index] for index in indices))
    ranked = sorted(indices, key=lambda index: (-chances[index], index))
    notes = search.range.notes(ranked[:_NOTED], search.clues)
    kind, before, after = search.kind, search.range.revision(low), search.range.revision(high)
    undone = all(map(search.range.is_undone, indices))
    if undone:  # what the new end lacks: it changed the state the other way round
        kind, before, after = kind.opposite, after, before
    return replace(
        inconclusive,
        kind=kind,
        status=Answer.CULPRIT if confirmed and len(indices) == 1 else Answer.SUSPECTS,
        before=before,
        after=after,
        undone=undone,
        suspects=tuple(_suspect(search, notes, index, float(chances[index]) / total) for index in ranked),
        confirmed=confirmed,
        evidence=search.evidence.summary if search.evidence else None,
        branches=tuple(map(ReleaseBranch.of, search.range.branches())),
    )


def _key(case: Case, revision: Revision) -> tuple[Path, str]:
    return case.source, revision.name


def _suspect(search: BisectSearch, notes: Mapping[str, Suspect], index: int, probability: float) -> Suspect:
    revision = search.range.suspect(index)
    note = notes.get(revision.commit or "") or Suspect(revision.name)
    return replace(
        note,
        name=revision.name,
        commit=revision.commit,
        date=revision.date,
        subject=revision.subject,
        probability=round(probability, 4),
    )


def _untestable(search: BisectSearch) -> tuple[UntestableRevision, ...]:
    found = [
        (search.range.revision(index), outcomes[-1].reason)
        for index, outcomes in sorted(search.outcomes.items())
        if isinstance(outcomes[-1], Untestable)
    ]
    if search.belief is not None:
        low, high = search.belief.bounds
        closed = search.range.closed()
        found += [(search.range.revision(index), closed[index]) for index in sorted(closed) if low < index < high]
        found += search.range.left_out()
    return (*(UntestableRevision(*each) for each in found), *search.untestable_outside)


def _other_failures(search: BisectSearch) -> tuple[OtherFailure, ...]:
    if search.failure is None:
        return ()
    match = search.match(search.failure)
    return tuple(
        OtherFailure(search.range.revision(index), outcome.failure)
        for index, outcomes in sorted(search.outcomes.items())
        if isinstance(outcome := outcomes[-1], Failed) and not match(outcome.failure)
    )
