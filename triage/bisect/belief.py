"""The probability of each candidate to be the first one of the new state, what proves
it, and which to probe next. Pure values, no I/O.

Candidates are numbered 0 .. N-1, oldest first. Candidate 0 is known to be in the old
state and N-1 in the new one, so one of 1 .. N-1 is the first new one. A candidate whose
probability is not 0 is a suspect. A probe at `i` separates the suspects up to `i` from
those after it. A candidate that could not be tested stays a suspect.

The key insight: evidence is kept, and the probabilities follow from all of it. As long
as no candidate shows both sides, a probe counts as proof and halves the suspects by
their weight. The first contradiction makes every probe doubtful, the old ones too;
since nothing was thrown away, the same evidence is then weighed by how often probes
were seen to be wrong, and the search turns back by itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.result import CONFIDENCE, Side

Floats = NDArray[np.float64]

# Used from the first time that a candidate contradicts itself; until then every probe
# is trusted.
WRONG = 0.08  # one probe in twelve may be wrong
# how many probes this knowledge is worth: the evidence itself changes it
WRONG_KNOWN = 20.0

# rate of wrong probes that is assumed at least in both states, once probes have
# disagreed
_FLAKY = 0.2
# of both states together; with more, no number of probes tells them apart
_HIGHEST_RATES = 0.9
# of the failing end at least, to know how often it passes, once probes have disagreed
_END_PROBES = 8
# pairs that a search with flaky probes may try to confirm; each must rarely be a wrong
# one
_TESTED_PAIRS = 5
_MOST_CONFIRMATIONS = 5
_LONG = 22  # probes, of which nine in ten times one shows a failure of one run in ten

_SWEEPS = 4  # how often each probe of a batch is moved to where it helps most
_WORTH_MOVING = 1.001  # factor that its information must grow by to be moved
# share of the information of the best probe, once probes have disagreed
_WORTH_REPEATING = 0.1
_UNTESTABLE = 0.05  # share of candidates that cannot be tested, before any probe
# of those next to one that cannot be tested; the chance halves at twice the distance
_NEXT_TO_UNTESTABLE = 0.7
# seconds that another candidate that failed must be quicker than the failing end, to be
# probed again instead
_WORTH_ASKING = 1.0
_LEAST_SECONDS = 1e-9  # avoids a division by 0


@dataclass(frozen=True, slots=True)
class SuspectBlock:
    """Suspects `first` .. `last` that no possible probe can separate, and the sum of
    their probabilities.
    """

    first: int
    last: int
    probability: float


@dataclass(frozen=True, eq=False)
class Belief:
    """Probabilities of each candidate to be the first new one, given evidence in any
    order and with repeats.
    """

    prior: Floats
    """Shape (N,), sums to 1, 0 at candidate 0; `from_weights` makes one."""
    closed: frozenset[int] = frozenset()
    """Candidates that cannot be probed."""
    evidence: tuple[tuple[int, Side | None], ...] = ()
    """The side that each probe showed; None if it could not be tested."""
    foreign: frozenset[int] = frozenset()
    """Candidates whose first result is that of a person or of a machine that is not
    trusted: it guides and proves nothing.
    """

    @classmethod
    def from_weights(cls, weights: ArrayLike, closed: Collection[int] = ()) -> Belief:
        """Make a belief from one weight for each candidate; that of the first is
        ignored.

        Raises:
            ValueError: There are fewer than two candidates, or a weight is not a
                positive number.
        """
        prior = np.array(weights, dtype=np.float64)
        # No evidence could ever bring back a culprit with a prior of 0.
        if len(prior) < 2 or not (np.isfinite(prior).all() and (prior[1:] > 0).all()):
            raise ValueError(
                "a range needs two candidates, and each after the first a positive, "
                "finite weight"
            )
        prior[0] = 0.0
        return cls(prior / prior.sum(), frozenset(closed))

    @property
    def size(self) -> int:
        return len(self.prior)

    def observe(
        self, *evidence: tuple[int, Side | None], trusted: bool = True
    ) -> Belief:
        """Add probes: a candidate and the side that it showed."""
        if trusted:
            foreign = self.foreign
        else:
            foreign = self.foreign | {
                index for index, _ in evidence if index not in self.shown
            }
        return replace(self, evidence=self.evidence + evidence, foreign=foreign)

    @cached_property
    def shown(self) -> dict[int, tuple[int, int, int]]:
        """How often each probed candidate was on the old side, on the new side, and
        could not be tested.
        """
        shown: dict[int, tuple[int, int, int]] = {}
        for index, side in sorted(self.evidence, key=lambda each: each[0]):
            old, new, skipped = shown.get(index, (0, 0, 0))
            shown[index] = (
                old + (side is Side.OLD),
                new + (side is Side.NEW),
                skipped + (side is None),
            )
        return shown

    @cached_property
    def doubtful(self) -> bool:
        """Whether a candidate has shown both sides, so that any probe may be wrong.

        Until then every probe is trusted; of several changes from old to new the one
        nearest to the new end is searched, because it led to the new state.
        """
        return any(old and new for old, new, _ in self.shown.values())

    @property
    def is_inverted(self) -> bool:
        """Whether a candidate on the new side is older than one on the old side: a
        wrong probe, or a second change.
        """
        oldest_new = min(
            (index for index, (_, new, _) in self.shown.items() if new),
            default=self.size,
        )
        return any(
            old and index > oldest_new for index, (old, _, _) in self.shown.items()
        )

    @cached_property
    def counts(self) -> dict[int, tuple[int, int]]:
        """(old, new) results of the inner candidates that have any; the ends are
        known.
        """
        inner = {
            index: each[:2]
            for index, each in self.shown.items()
            if 0 < index < self.size - 1
        }
        return {index: results for index, results in inner.items() if any(results)}

    @cached_property
    def skipped(self) -> list[int]:
        """Candidates that were probed and never had a result."""
        return [
            index for index, (old, new, _) in self.shown.items() if not (old or new)
        ]

    @cached_property
    def shut(self) -> list[int]:
        """Candidates that no probe can give a side."""
        return [*self.closed, *self.skipped]

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The last candidate taken as old and the first taken as new, if every probe is
        trusted.
        """
        first_new = self.size - 1
        for index, (old, new) in reversed(self.counts.items()):
            if old and not new:
                return index, first_new
            if not old:
                first_new = index
        return 0, first_new

    @cached_property
    def probabilities(self) -> Floats:
        """Shape (N,), sums to 1."""
        if self.doubtful:
            seen = np.array(list(self.counts.values()), dtype=np.int64).reshape(-1, 2)
            logs = []
            # the first new one lies between two neighbouring probed candidates
            for cut in range(len(seen) + 1):
                (right, wrong), (missed, caught) = (
                    seen[:cut].sum(axis=0),
                    seen[cut:].sum(axis=0),
                )
                logs.append(_log_chance(wrong, right) + _log_chance(missed, caught))
            edges = [0, *(index + 1 for index in self.counts), self.size]
            posterior = self.prior * np.repeat(
                np.exp(np.array(logs) - max(logs)), np.diff(edges)
            )
        else:
            low, high = self.bounds
            posterior = np.zeros(self.size)
            posterior[low + 1 : high + 1] = self.prior[low + 1 : high + 1]
        shares: Floats = posterior / posterior.sum()
        return shares

    @property
    def steps(self) -> int:
        """About how many probes are missing, at least 1."""
        chances = self.probabilities[self.probabilities > 0]
        return max(1, math.ceil(-float((chances * np.log2(chances)).sum()) - 0.1))

    def suspects(self) -> list[tuple[int, float]]:
        """Return every suspect with its probability, the most likely first, the older
        first among equals.
        """
        order = np.argsort(-self.probabilities, kind="stable")
        return [
            (int(index), float(self.probabilities[index]))
            for index in order
            if self.probabilities[index] > 0
        ]

    def credible(self, confidence: float) -> list[int]:
        """Return the fewest candidates that hold the first new one with this
        probability, oldest first.
        """
        held, chosen = 0.0, []
        for index, chance in self.suspects():
            if held >= confidence * (1 - 1e-12):
                break
            held += chance
            chosen.append(index)
        return sorted(chosen)

    @cached_property
    def leading(self) -> SuspectBlock:
        """The most likely suspects that cannot be separated, the older of two that are
        equal.
        """
        can_probe = np.ones(self.size, dtype=np.bool_)
        can_probe[self.shut] = False
        # A candidate begins a block if its predecessor can be probed.
        firsts = np.unique([1, *(np.flatnonzero(can_probe[:-1]) + 1)])
        lasts = np.append(firsts[1:] - 1, self.size - 1)
        chances = np.add.reduceat(self.probabilities, firsts)
        best = int(np.argmax(np.round(chances, 12)))
        first, last = int(firsts[best]), int(lasts[best])
        if not self.doubtful:
            low, high = self.bounds
            first, last = max(first, low + 1), min(last, high)
        return SuspectBlock(first, last, float(chances[best]))

    def is_resolved(self, confidence: float = CONFIDENCE) -> bool:
        """Return whether the leading block is likely enough, between a candidate seen
        in the old state and one in the new.

        A prior alone never resolves anything. A block of one suspect is the culprit;
        more cannot be separated.
        """
        block, seen = self.leading, {0: (1, 0), self.size - 1: (0, 1), **self.counts}
        if block.probability < confidence - 1e-12:
            return False
        return (
            seen.get(block.first - 1, (0, 0))[0] > 0
            and seen.get(block.last, (0, 0))[1] > 0
        )

    # Confirm

    @property
    def pair(self) -> tuple[tuple[int, Side], tuple[int, Side]]:
        """The two candidates around the leading suspects, each with the side that it
        must be on.
        """
        return (self.leading.first - 1, Side.OLD), (self.leading.last, Side.NEW)

    def is_confirmed(self, confidence: float = CONFIDENCE) -> bool:
        """Return whether both candidates of the pair were probed again and proved to be
        on their sides.
        """
        return self.is_resolved(confidence) and all(
            self.lacking(*each, confidence) <= 0 for each in self.pair
        )

    def lacking(self, index: int, side: Side, confidence: float) -> int:
        """Return how many more probes must show a side until a candidate is proved to
        be on it; at most 0 if it is.

        While no probe contradicts another, it must be on its side once more than it is
        confirmed. Otherwise its results must be so much likelier on that side that
        chance confirms a wrong pair less often than the confidence allows. Where the
        failure comes and goes after the change, many passes are needed before a
        candidate counts as old.
        """
        old, new, skipped = self.shown.get(index, (0, 0, 0))
        right = old if side is Side.OLD else new
        wrong = old + new + skipped - right
        right -= index in self.foreign
        if not (self.doubtful or self.is_inverted):
            return 1 + confirmations(confidence) + wrong - right
        rates = self._error_rates()
        own, other = rates if side is Side.OLD else rates[::-1]
        # the log odds that a right probe adds for the side, and a wrong one takes
        gain = math.log((1 - own) / other)
        loss = math.log((1 - other) / own)
        missing = _log_odds_needed(confidence) - right * gain + wrong * loss
        return math.ceil(missing / gain - 1e-9)

    def _error_rates(self) -> tuple[float, float]:
        """Return how often a probe of an old candidate shows the new side, and one of a
        new candidate the old side.

        What the pair shows counts like what the ends show: if the pair is right, its
        candidates are wrong as often as the ends.
        """
        (before, _), (after, _) = self.pair
        old = max(self._rate(0, Side.OLD), self._rate(before, Side.OLD))
        new = max(self._rate(self.size - 1, Side.NEW), self._rate(after, Side.NEW))
        old = min(old, 0.5)
        return old, min(new, 0.98 - old)

    def repeats(self, confidence: float) -> int:
        """Return how often each of a pair is probed again while no candidate
        contradicts itself.
        """
        if not self.is_inverted:
            return confirmations(confidence)
        return _repeats_of_inverted(confidence)

    # Is the failure older than the pair? `failing` is the side of the failure: new for
    # a regression, old for a fix.

    def early_failure(self, failing: Side) -> int | None:
        """Return the candidate on the good side, farthest from the pair, that showed
        the failure.
        """
        for index in self._good_side(failing):
            failures, _ = self.failures_at(index, failing)
            if failures:
                return index
        return None

    def is_older(self, failing: Side) -> bool:
        """Return whether the failure comes and goes on the good side of the pair, so
        that the pair only made it worse.

        Not if it is as old as the good end, where any probe may show it.
        """
        early = self.early_failure(failing)
        if early is None or self.unsettled(failing):
            return False
        failures, runs = self.failures_at(early, failing)
        at_good_end, _ = self.failures_at(self.good_end(failing), failing)
        comes_and_goes = failures < runs and self._early_failures(failing) > 1
        return comes_and_goes and not at_good_end

    def unsettled(self, failing: Side, jobs: int = 1) -> Mapping[int, int]:
        """Return which candidates to probe, and how often, until it is known whether
        the failure is older than the pair.
        """
        early = self.early_failure(failing)
        if early is None:
            return {}
        failures, runs = self.failures_at(early, failing)
        if failures == runs:
            # in a window of failures, every further probe fails too
            missing = 1 + _repeats_of_inverted(CONFIDENCE) - runs
            return {early: missing} if missing > 0 else {}
        if self._early_failures(failing) == 1:
            asked = early  # it may have been a single wrong probe
        else:
            asked = self.good_end(failing)  # a failure there may show everywhere
            failures, runs = self.failures_at(asked, failing)
            if failures:
                return {}
        if runs < _LONG:
            return {asked: min(jobs, _LONG - runs)}
        return {}

    def failures_at(self, index: int, failing: Side) -> tuple[int, int]:
        """Return how many probes of a candidate showed the failure, of how many."""
        old, new, skipped = self.shown.get(index, (0, 0, 0))
        failures = new if failing is Side.NEW else old
        return failures, old + new + skipped

    def _early_failures(self, failing: Side) -> int:
        """Return how many probes on the good side showed the failure."""
        return sum(
            self.failures_at(index, failing)[0] for index in self._good_side(failing)
        )

    def _good_side(self, failing: Side) -> range:
        """The candidates on the good side of the pair, those nearest to it last."""
        (before, _), (after, _) = self.pair
        if failing is Side.NEW:
            return range(1, before + 1)
        return range(self.size - 2, after - 1, -1)

    def witnesses(self, failing: Side) -> list[int]:
        """Return the failing end, and the candidates between it and the pair that
        showed the failure.
        """
        (before, _), (after, _) = self.pair
        if failing is Side.NEW:
            between = range(after + 1, self.size - 1)
        else:
            between = range(1, before)
        failed = (index for index in between if self.failures_at(index, failing)[0])
        return [self.bad_end(failing), *(i for i in failed if i not in self.foreign)]

    def good_end(self, failing: Side) -> int:
        if failing is Side.NEW:
            return 0
        return self.size - 1

    def bad_end(self, failing: Side) -> int:
        return self.size - 1 - self.good_end(failing)

    def lacking_at_good_end(self, failing: Side) -> int:
        """Return how many probes of the good end are missing to know how often it
        fails, if it ever does.
        """
        failures, runs = self.failures_at(self.good_end(failing), failing)
        if failures:
            return _END_PROBES - runs
        return 0

    def too_flaky(self, failing: Side) -> int | None:
        """Return the end whose probes differ too often to distinguish both states."""
        if (
            not self.doubtful
            or sum(self.shown.get(self.bad_end(failing), ())) < _END_PROBES
            or self.lacking_at_good_end(failing) > 0
        ):
            return None
        false, missed = self._rate(0, Side.OLD), self._rate(self.size - 1, Side.NEW)
        if missed + false <= _HIGHEST_RATES:
            return None
        if missed > false:
            return self.size - 1
        return 0

    def _rate(self, index: int, side: Side) -> float:
        """Return the rate of wrong probes that those of a candidate on a side leave
        possible, by one standard error.
        """
        old, new, _ = self.shown.get(index, (0, 0, 0))
        wrong = new if side is Side.OLD else old
        rate = (wrong + 1) / (old + new + 2)
        if wrong:
            return max(_FLAKY, rate + math.sqrt(rate * (1 - rate) / (old + new + 3)))
        return _FLAKY


def confirmations(confidence: float) -> int:
    """Return how often a pair is probed again while every probe is trusted, for a
    culprit of this confidence.

    Assume that one probe in five is wrong. About every second search then meets a wrong
    probe, and each confirmation repeats it one time in five.
    """
    allowed = 2 * (1 - confidence)
    if allowed <= 0:
        return _MOST_CONFIRMATIONS
    return min(
        _MOST_CONFIRMATIONS,
        max(1, math.ceil(math.log(allowed) / math.log(_FLAKY) - 1e-9)),
    )


def _repeats_of_inverted(confidence: float) -> int:
    """Return how often a candidate is probed again where older ones have the new
    state.
    """
    return math.ceil(_log_odds_needed(confidence) / math.log((1 - _FLAKY) / _FLAKY)) - 1


def _log_odds_needed(confidence: float) -> float:
    """Return the log odds for a side at which chance confirms a wrong pair less often
    than the confidence allows.
    """
    return -math.log(max(1 - confidence, 1e-6) / (2 * _TESTED_PAIRS))


def next_round(
    belief: Belief,
    seconds: ArrayLike,
    again: Sequence[float],
    jobs: int,
    failing: Side,
    confidence: float = CONFIDENCE,
) -> Mapping[int, int]:
    """Choose which candidates to probe next, and how often each; none if the answer is
    final or no probe can help.

    First the suspects are separated. Then the pair around the leading ones is probed
    again, together with a candidate that failed outside of it: a failure that comes and
    goes since the culprit shows both sides there. Once probes contradict each other,
    the failing end shows how often they are wrong, and both candidates are probed until
    their sides are proved; one that rather shows the other side sends the search
    elsewhere. At last come probes that tell whether a failure that was seen before the
    pair is older.

    failing: the side of the failure. again: shape (N,), the seconds that a candidate
    costs if it is probed again. The rest is as in `next_probes`.
    """
    bad_end = belief.bad_end(failing)
    at_bad_end = sum(belief.shown.get(bad_end, ()))
    # how often are probes wrong?
    if belief.doubtful:
        pair = [sum(belief.shown.get(index, ())) for index, _ in belief.pair]
        more = max(_END_PROBES, *pair) - at_bad_end
        if more > 0:
            return {bad_end: more}
    more = belief.lacking_at_good_end(failing)
    if more > 0:
        return {belief.good_end(failing): more}
    # which candidate is it?
    if not belief.is_resolved(confidence):
        return dict.fromkeys(next_probes(belief, seconds, jobs), 1)
    # is it certain?
    lacking = {}
    for index, side in belief.pair:
        count = belief.lacking(index, side, confidence)
        if count > 0:
            lacking[index] = count
    if belief.doubtful:
        return dict.fromkeys(lacking, 1) or belief.unsettled(failing, jobs)
    repeats = belief.repeats(confidence)
    # not testable any more
    if any(belief.shown.get(index, (0, 0, 0))[2] > repeats for index in lacking):
        return {}
    witnesses = belief.witnesses(failing)
    witness = min(witnesses, key=again.__getitem__)
    if again[bad_end] - again[witness] < _WORTH_ASKING:
        witness = bad_end
    # failures elsewhere do not count: where it passed by chance, the pair lies there
    seen = sum(belief.shown.get(witness, ()))
    more = max(lacking.get(witness, 0), 2 * repeats + 1 - seen)
    if more > 0:
        lacking[witness] = more
    return lacking or belief.unsettled(failing, jobs)


def _log_chance(wrong: int, right: int) -> float:
    """Return the natural log of the chance of `wrong` wrong and `right` right probes
    (beta-binomial).
    """
    a, b = WRONG * WRONG_KNOWN, (1 - WRONG) * WRONG_KNOWN
    return _log_beta(a + wrong, b + right) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def next_probes(belief: Belief, seconds: ArrayLike, jobs: int = 1) -> tuple[int, ...]:
    """Choose up to `jobs` candidates to probe at once, oldest first; none if no probe
    can help any more.

    A probe cuts the suspects in two. The best cuts give most information for the
    seconds that they cost. Candidates that were skipped are not chosen again. seconds:
    shape (N,), the cost of a probe.

    >>> belief = Belief.from_weights([1] * 9)
    >>> next_probes(belief, [1.0] * 9)
    (4,)
    >>> next_probes(belief.observe((4, Side.NEW)), [1.0] * 9)
    (2,)
    """
    is_open = np.ones(belief.size, dtype=np.bool_)
    is_open[[0, belief.size - 1, *belief.shut]] = False
    if not belief.doubtful:
        low, high = belief.bounds
        is_open[: low + 1] = is_open[high:] = False
    indices = np.flatnonzero(is_open)
    if len(indices) <= jobs:
        return tuple(map(int, indices))
    # probability that the first new one is at or before each cut
    below = np.cumsum(belief.probabilities)[indices]
    cost = np.maximum(np.asarray(seconds)[indices], _LEAST_SECONDS) / (
        1 - _untestable_odds(belief)[indices]
    )
    chosen: list[int] = []
    for part in range(1, jobs + 1):
        distance = np.abs(below - part / (jobs + 1))
        distance[chosen] = math.inf
        chosen.append(int(np.argmin(distance)))
    for _ in range(_SWEEPS):
        before = list(chosen)
        for number in range(jobs):
            gain = (
                _added_information(below, chosen[:number] + chosen[number + 1 :]) / cost
            )
            # Sums of probabilities differ in their last digits by machine: take the
            # first of the best.
            best = int(np.flatnonzero(gain >= gain.max() * (1 - 1e-9))[0])
            if gain[best] > gain[chosen[number]] * _WORTH_MOVING:
                chosen[number] = best
        if chosen == before:
            break
    if belief.doubtful:  # a probe again of what is all but certain
        alone = _added_information(below, [])
        chosen = [
            cut
            for cut in chosen
            if alone[cut] >= _WORTH_REPEATING * alone[chosen].max()
        ]
    return tuple(sorted(int(indices[cut]) for cut in chosen))


def _untestable_odds(belief: Belief) -> Floats:
    """Estimate for each candidate the chance that it cannot be tested. Broken revisions
    come in runs of unknown length.
    """
    odds = np.full(belief.size, _UNTESTABLE)
    for index in belief.skipped:
        odds = np.maximum(
            odds, _NEXT_TO_UNTESTABLE / (1 + np.abs(np.arange(belief.size) - index) / 2)
        )
    odds[list(belief.counts)] = 0.0
    return odds


def _added_information(below: Floats, others: list[int]) -> Floats:
    """Return the bits that each cut adds to the results of `others`; -1 for
    `others`.
    """
    edges = np.concatenate([[0.0], below[sorted(others)], [1.0]])
    part = np.clip(np.searchsorted(edges, below, side="right") - 1, 0, len(edges) - 2)
    start, width = edges[part], edges[part + 1] - edges[part]
    share = np.divide(below - start, width, out=np.zeros_like(width), where=width > 0)
    p = np.clip(share, 0.0, 1.0)  # rounding may leave a sum outside
    bits = -p * np.log2(np.where(p > 0, p, 1.0)) - (1 - p) * np.log2(
        np.where(p < 1, 1 - p, 1.0)
    )
    gain: Floats = width * bits
    gain[others] = -1.0
    return gain
