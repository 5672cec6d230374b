"""Find the place that brought a failure, or the one that took it away, by what each probe is expected to tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.bisect.belief import EXACT, FLAKY, Belief, Block
from triage.bisect.choose import next_probes, untestable_odds
from triage.bisect.ends import chased, wrong_end
from triage.bisect.line import CandidateLine
from triage.bisect.pass_evidence import PassEvidence
from triage.bisect.prior_clues import Clues
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.judge import Match, same_signature, verdict_of
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.outcome import Failed, Failure, Outcome, Untestable, Verdict
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

CONFIDENCE = 0.995
_LEAST_SECONDS = 0.05  # of a compile whose price is not known yet
_MOST_ROUNDS = 40  # of doubt about a pair that will not agree with itself
_WORTH_A_WITNESS = 8  # suspects; fewer are told apart by three probes
_SLOWER = 6.0  # times a compile that prints its IR takes as long; it may save one probe
_MOST_CONFIRMATIONS = 4
_NOTED = 20  # suspects that are described


@dataclass(slots=True)
class CommitSearch:
    """One search under way: what was asked and what was answered."""

    bench: ProbeRunner
    case: Case
    line: CandidateLine
    kind: BisectKind = BisectKind.REGRESSION
    match: Callable[[Failure], Match] = same_signature
    confidence: float = CONFIDENCE
    repeats: int = 1
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)
    belief: Belief | None = None
    failure: Failure | None = None
    #: Asked once, with the good and the bad end's compilers, for what their passes tell of the culprit.
    witness: Callable[[ToolchainRef, ToolchainRef], PassEvidence | None] | None = None
    evidence: PassEvidence | None = None
    probes: int = 0
    rounds: int = 0
    cached: int = 0
    compile_seconds: float = _LEAST_SECONDS

    @property
    def last(self) -> int:
        """The index of the bad end."""
        return len(self.line) - 1

    @property
    def clues(self) -> Clues:
        """What the failure, the case and the passes tell of its culprit."""
        assert self.failure is not None
        clues = Clues.of(self.failure, self.case.target.backend)
        return self.evidence.added_to(clues) if self.evidence else clues

    @property
    def leading(self) -> Block:
        """The likeliest suspects that cannot be told apart."""
        assert self.belief is not None
        return self.belief.leading(self.line.closed())

    @property
    def resolved(self) -> bool:
        """Whether the leading suspects are likely enough, and witnessed by probes on both sides."""
        return self.belief is not None and self.belief.is_resolved(self.confidence, self.line.closed())

    def begin(self) -> str | None:
        """Verify both ends and weigh the places between; why the search cannot begin, or None when it can."""
        self.ask([0, self.last])
        for index, new in ((0, False), (self.last, True)):
            must_fail = new == (self.kind is BisectKind.REGRESSION)
            wrong = wrong_end(self.line.revision(index).name, self.outcomes[index][-1], must_fail=must_fail)
            if wrong is not None:
                return wrong
        outcome = self.outcomes[self.last if self.kind is BisectKind.REGRESSION else 0][-1]
        assert isinstance(outcome, Failed)
        self.failure = outcome.failure
        self.bench.progress.note(chased(self.case, self.failure))
        if self.witness is not None and self._worth_a_witness():
            good, bad = (0, self.last) if self.kind is BisectKind.REGRESSION else (self.last, 0)
            self.evidence = self.witness(self.line.place(good), self.line.place(bad))
        self.belief = Belief.from_weights(self.line.weights(self.clues))
        return None

    def _worth_a_witness(self) -> bool:
        """Whether what passes tell is cheaper than the probes it may save: it compiles both ends once more, and slowly."""
        prices = sorted(price for price in self.line.prices() if math.isfinite(price))
        price = (prices[len(prices) // 2] if prices else 0.0) + self.compile_seconds * self.repeats
        return self.last >= _WORTH_A_WITNESS and price >= _SLOWER * 2 * self.compile_seconds

    def choose(self) -> tuple[int, ...]:
        """The places to probe next; empty when the answer stands or nothing more can be learnt."""
        assert self.belief is not None
        if self.resolved:
            return ()
        odds = untestable_odds(self.belief)
        odds[list(self.line.closed())] = 1.0
        prices = self.line.prices() + self.compile_seconds * self.repeats
        return next_probes(self.belief, prices, self.bench.jobs, untestable=odds)

    def ask(self, indices: Iterable[int], *, fresh: bool = False) -> None:
        """Probe those places at once, each as many times as `repeats` says, and take in the verdicts."""
        wanted: dict[tuple[Path, str], tuple[ProbeJob, list[int]]] = {}
        for index in indices:
            case, place = self.line.case(index, self.case), self.line.place(index)
            if isinstance(case, Untestable):
                self.take(index, case)
                continue
            # Spots of a line of cases share their compiler, and some share their input as well.
            wanted.setdefault(_key(case, place.revision), (ProbeJob(case, place, fresh), []))[1].append(index)
        self.rounds += bool(wanted)
        for turn in range(self.repeats):
            jobs = [replace(job, fresh=fresh or turn > 0) for job, _ in wanted.values()]
            for probe in self.bench.probe_all(jobs, f"bisect {self.case.name}"):
                self.probes += 1
                self.cached += probe.cached
                self.compile_seconds = max(self.compile_seconds, probe.measured.seconds)
                for index in wanted[_key(probe.case, probe.revision)][1]:
                    self.take(index, probe.outcome)

    def take(self, index: int, outcome: Outcome) -> None:
        """One more answer."""
        self.outcomes.setdefault(index, []).append(outcome)
        if self.belief is not None:
            self.belief = self.belief.observe(index, self.verdict(outcome))

    def verdict(self, outcome: Outcome) -> Verdict:
        """GOOD for the old state and BAD for the new one, whichever way the change goes."""
        assert self.failure is not None
        said = verdict_of(outcome, self.match(self.failure))
        if self.kind is BisectKind.REGRESSION or said is Verdict.SKIP:
            return said
        return Verdict.BAD if said is Verdict.GOOD else Verdict.GOOD


def bisect_commits(search: CommitSearch, told: Callable[[CommitSearch], None] = lambda _: None) -> Bisection:
    """Run a search to its end. `told` is called after each round of probes."""
    if search.belief is None and (wrong := search.begin()) is not None:
        return answer(search, reason=wrong)
    told(search)
    for _ in range(_MOST_ROUNDS):
        while chosen := search.choose():
            search.ask(chosen)
            told(search)
        if not search.resolved or confirm(search):
            break
        told(search)
    return answer(search)


def confirm(search: CommitSearch) -> bool:
    """Probe the pair that convicts again, nothing recalled; whether both agree each time. A place that disagrees with itself
    shows that probes are not to be taken at their word, and the belief is told so: from then on it weighs them itself.
    """
    assert search.belief is not None
    pair = (search.leading.first - 1, search.leading.last)
    exact = search.belief.noise is EXACT
    search.ask([index for index in pair if index not in search.outcomes])  # so far only a journal or a log spoke of it
    for _ in range(confirmations(search.confidence) if exact else 1):
        search.ask(pair, fresh=True)
        if [search.verdict(search.outcomes[index][-1]) for index in pair] != [Verdict.GOOD, Verdict.BAD]:
            if exact:
                search.belief = search.belief.with_noise(FLAKY)
            return False
    return is_confirmed(search)


def confirmations(confidence: float) -> int:
    """How often a pair is probed again before verdicts are taken at their word: as often as it takes that places of which
    one probe in ten is wrong convict the innocent no oftener than `confidence` allows. About every second search meets a
    wrong probe there, and then each confirmation repeats it one time in ten.
    """
    allowed = 2 * (1 - confidence)
    return _MOST_CONFIRMATIONS if allowed <= 0 else min(_MOST_CONFIRMATIONS, max(1, math.ceil(-math.log10(allowed) - 1e-9)))


def is_confirmed(search: CommitSearch) -> bool:
    """Whether the pair around the leading suspects was probed twice, and the last two times in the state it needs."""
    if not search.resolved:
        return False
    pair = ((search.leading.first - 1, Verdict.GOOD), (search.leading.last, Verdict.BAD))
    return all(
        [search.verdict(outcome) for outcome in search.outcomes.get(index, [])[-2:]] == [needed, needed]
        for index, needed in pair
    )


def answer(search: CommitSearch, reason: str | None = None) -> Bisection:
    """What the search found out so far, as a certificate."""
    empty = Bisection(
        case=search.case,
        kind=search.kind,
        answer=Answer.INCONCLUSIVE,
        failure=search.failure,
        probes=search.probes,
        rounds=search.rounds,
        cached=search.cached,
        untestable=_untestable(search),
        other_failures=_other_failures(search),
        reason=reason,
    )
    if search.belief is None:
        ends = [search.outcomes[index][-1] for index in (0, search.last) if index in search.outcomes]
        return replace(empty, cause=next((end.cause for end in ends if isinstance(end, Untestable)), None))
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
    return replace(
        empty,
        answer=Answer.CULPRIT if confirmed and len(indices) == 1 else Answer.SUSPECTS,
        before=search.line.revision(low),
        after=search.line.revision(high),
        suspects=tuple((search.line.revision(index), round(float(chances[index]) / total, 4)) for index in ranked),
        confirmed=confirmed,
        evidence=search.evidence.told if search.evidence else None,
        notes=search.line.notes(ranked[:_NOTED], search.clues),
    )


def _key(case: Case, revision: Revision) -> tuple[Path, str]:
    return case.source, revision.name


def _untestable(search: CommitSearch) -> tuple[tuple[Revision, str], ...]:
    asked = [
        (search.line.revision(index), outcome.reason)
        for index, outcomes in sorted(search.outcomes.items())
        if isinstance(outcome := outcomes[-1], Untestable)
    ]
    if search.belief is None:
        return tuple(asked)
    low, high = search.belief.bounds
    closed = search.line.closed()
    return (*asked, *((search.line.revision(index), closed[index]) for index in sorted(closed) if low < index < high))


def _other_failures(search: CommitSearch) -> tuple[tuple[Revision, Failure], ...]:
    if search.failure is None:
        return ()
    match = search.match(search.failure)
    return tuple(
        (search.line.revision(index), outcome.failure)
        for index, outcomes in sorted(search.outcomes.items())
        if isinstance(outcome := outcomes[-1], Failed) and not match(outcome.failure)
    )
