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
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

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
# seconds by which another candidate that failed must be quicker than the failing end to
# be probed again instead
_LEAST_SAVED = 1.0
_LEAST_SECONDS = 1e-9  # avoids a division by 0


@dataclass(frozen=True, slots=True)
class SuspectBlock:
    """Suspects `first` .. `last` that no possible probe can separate, and the sum of
    their probabilities.
    """

    first: int
    last: int
    probability: float


class Tally(NamedTuple):
    """How many probes of a candidate showed each side, or could not be tested."""

    old: int = 0
    new: int = 0
    skipped: int = 0

    @property
    def probes(self) -> int:
        return sum(self)


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
    by_person: frozenset[int] = frozenset()
    """Candidates whose first result is what a person says: it guides and proves
    nothing.
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
        self, *evidence: tuple[int, Side | None], by_person: bool = False
    ) -> Belief:
        """Return a belief with further evidence.

        evidence: candidates, each with the side that a probe showed; None if it could
        not be tested. by_person: whether a person says so.
        """
        told = self.by_person
        if by_person:
            told |= {index for index, _ in evidence if index not in self.tallies}
        return replace(self, evidence=self.evidence + evidence, by_person=told)

    @cached_property
    def tallies(self) -> dict[int, Tally]:
        """What the probes of each probed candidate showed, oldest candidate first."""
        sides: dict[int, Counter[Side | None]] = {}
        for index, side in sorted(self.evidence, key=lambda each: each[0]):
            sides.setdefault(index, Counter())[side] += 1
        return {
            index: Tally(each[Side.OLD], each[Side.NEW], each[None])
            for index, each in sides.items()
        }

    def tally(self, index: int) -> Tally:
        return self.tallies.get(index, Tally())

    @cached_property
    def doubtful(self) -> bool:
        """Whether a candidate has shown both sides, so that any probe may be wrong.

        Until then every probe is trusted; of several changes from old to new the one
        nearest to the new end is searched, because it led to the new state.
        """
        return any(one.old and one.new for one in self.tallies.values())

    @property
    def is_inverted(self) -> bool:
        """Whether a candidate on the new side is older than one on the old side: a
        wrong probe, or a second change.
        """
        oldest_new = min(
            (index for index, one in self.tallies.items() if one.new),
            default=self.size,
        )
        return any(
            one.old and index > oldest_new for index, one in self.tallies.items()
        )

    @cached_property
    def counts(self) -> dict[int, tuple[int, int]]:
        """(old, new) results of the inner candidates that have any; the ends are
        known.
        """
        return {
            index: (one.old, one.new)
            for index, one in self.tallies.items()
            if 0 < index < self.size - 1 and (one.old or one.new)
        }

    @cached_property
    def skipped(self) -> list[int]:
        """Candidates that were probed and never had a result."""
        return [
            index for index, one in self.tallies.items() if not (one.old or one.new)
        ]

    @cached_property
    def without_side(self) -> list[int]:
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
                old_before, new_before = seen[:cut].sum(axis=0)
                old_after, new_after = seen[cut:].sum(axis=0)
                logs.append(
                    _log_chance(wrong=new_before, right=old_before)
                    + _log_chance(wrong=old_after, right=new_after)
                )
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

    def credible_suspects(self, confidence: float) -> list[int]:
        """Return the fewest candidates among which the first new one is with this
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
    def leading_block(self) -> SuspectBlock:
        """The most likely suspects that cannot be separated, the older of two that are
        equal.
        """
        can_probe = np.ones(self.size, dtype=np.bool_)
        can_probe[self.without_side] = False
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
        block, seen = (
            self.leading_block,
            {0: (1, 0), self.size - 1: (0, 1), **self.counts},
        )
        if block.probability < confidence - 1e-12:
            return False
        return (
            seen.get(block.first - 1, (0, 0))[0] > 0
            and seen.get(block.last, (0, 0))[1] > 0
        )

    # Confirm

    @property
    def pair(self) -> tuple[tuple[int, Side], tuple[int, Side]]:
        """The two candidates around the leading block, each with the side that it
        must be on.
        """
        return (self.leading_block.first - 1, Side.OLD), (
            self.leading_block.last,
            Side.NEW,
        )

    def is_confirmed(self, confidence: float = CONFIDENCE) -> bool:
        """Return whether both candidates of the pair were probed again and proved to be
        on their sides.
        """
        return self.is_resolved(confidence) and all(
            self.probes_missing(*each, confidence) <= 0 for each in self.pair
        )

    def probes_missing(self, index: int, side: Side, confidence: float) -> int:
        """Return how many more probes must show a side until a candidate is proved to
        be on it; at most 0 if it is.

        While no probe contradicts another, it must be on its side once more than it is
        confirmed. Otherwise its results must be so much likelier on that side that
        chance confirms a wrong pair less often than the confidence allows. Where the
        failure comes and goes after the change, many passes are needed before a
        candidate counts as old.
        """
        old, new, skipped = self.tally(index)
        if side is Side.OLD:
            right, wrong = (old, new + skipped)
        else:
            right, wrong = (new, old + skipped)
        if index in self.by_person:
            right -= 1
        if not (self.doubtful or self.is_inverted):
            return 1 + confirmations_needed(confidence) + wrong - right
        wrong_if_old, wrong_if_new = self._error_rates()
        if side is Side.OLD:
            own, other = wrong_if_old, wrong_if_new
        else:
            own, other = wrong_if_new, wrong_if_old
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
        last = self.size - 1
        old = max(self.wrong_rate(0, Side.OLD), self.wrong_rate(before, Side.OLD))
        new = max(self.wrong_rate(last, Side.NEW), self.wrong_rate(after, Side.NEW))
        old = min(old, 0.5)
        return old, min(new, 0.98 - old)

    def repeats(self, confidence: float) -> int:
        """Return how often each of a pair is probed again while no candidate
        contradicts itself.
        """
        if not self.is_inverted:
            return confirmations_needed(confidence)
        return _repeats_of_inverted(confidence)

    def wrong_rate(self, index: int, side: Side) -> float:
        """Estimate how often a probe of a candidate on this side shows the other side,
        from above: one standard error more than seen, and at least `_FLAKY`.
        """
        old, new, _ = self.tally(index)
        if side is Side.OLD:
            wrong = new
        else:
            wrong = old
        rate = (wrong + 1) / (old + new + 2)
        if wrong:
            return max(_FLAKY, rate + math.sqrt(rate * (1 - rate) / (old + new + 3)))
        return _FLAKY


@dataclass(frozen=True, eq=False)
class FailureSides:
    """A belief with the side of the failure: the good and the bad end, how flaky they
    are, and whether the failure is older than the pair around the leading suspects.

    An older failure comes and goes on the good side of the pair, which only made it
    worse.
    """

    belief: Belief
    failing: Side
    """The side of the failure: new for a regression, old for a fix."""

    @property
    def good_end(self) -> int:
        if self.failing is Side.NEW:
            return 0
        return self.belief.size - 1

    @property
    def bad_end(self) -> int:
        return self.belief.size - 1 - self.good_end

    def early_failure(self) -> int | None:
        """Return the candidate that showed the failure on the good side, farthest from
        the pair; None if none did.
        """
        for index in self._inner_good_side():
            failures, _ = self.failures_at(index)
            if failures:
                return index
        return None

    def failure_precedes_pair(self) -> bool:
        """Return whether the failure comes and goes on the good side of the pair.

        False while more probes can settle it, and if the failure is as old as the good
        end, where any probe may show it.
        """
        early = self.early_failure()
        if early is None or self.probes_to_settle():
            return False
        failures, runs = self.failures_at(early)
        at_good_end, _ = self.failures_at(self.good_end)
        comes_and_goes = failures < runs and self._count_early_failures() > 1
        return comes_and_goes and not at_good_end

    def flaky_before_gap(self) -> int | None:
        """Return a candidate on the good side of some that cannot be tested, where the
        failure comes and goes: those may only have made it worse. None if there is no
        such candidate, or no such gap.
        """
        (before, _), (after, _) = self.belief.pair
        if after - before == 1:
            return None
        for index in chain([self.good_end], self._inner_good_side()):
            failures, runs = self.failures_at(index)
            if 0 < failures < runs:
                return index
        return None

    def probes_to_settle(self, jobs: int = 1) -> Mapping[int, int]:
        """Return which candidates to probe, and how often, until it is known whether
        the failure is older than the pair; empty if it is known.
        """
        early = self.early_failure()
        if early is None:
            return {}
        failures, runs = self.failures_at(early)
        if failures == runs:
            # in a window of failures, every further probe fails too
            missing = 1 + _repeats_of_inverted(CONFIDENCE) - runs
            return {early: missing} if missing > 0 else {}
        if self._count_early_failures() == 1:
            asked = early  # it may have been a single wrong probe
        else:
            asked = self.good_end  # a failure there may show everywhere
            failures, runs = self.failures_at(asked)
            if failures:
                return {}
        if runs < _LONG:
            return {asked: min(jobs, _LONG - runs)}
        return {}

    def failures_at(self, index: int) -> tuple[int, int]:
        """Return how many probes of a candidate showed the failure, of how many."""
        tally = self.belief.tally(index)
        failures = tally.new if self.failing is Side.NEW else tally.old
        return failures, tally.probes

    def _count_early_failures(self) -> int:
        """Return how many probes on the good side showed the failure."""
        return sum(self.failures_at(index)[0] for index in self._inner_good_side())

    def _inner_good_side(self) -> range:
        """Return the candidates on the good side of the pair, without the good end;
        those nearest to the pair come last.
        """
        (before, _), (after, _) = self.belief.pair
        if self.failing is Side.NEW:
            return range(1, before + 1)
        return range(self.belief.size - 2, after - 1, -1)

    def failed_outside_pair(self) -> list[int]:
        """Return the failing end, and the candidates between it and the pair that
        showed the failure on this machine.
        """
        (before, _), (after, _) = self.belief.pair
        if self.failing is Side.NEW:
            between = range(after + 1, self.belief.size - 1)
        else:
            between = range(1, before)
        failed = [
            index
            for index in between
            if self.failures_at(index)[0] and index not in self.belief.by_person
        ]
        return [self.bad_end, *failed]

    def probes_missing_at_good_end(self) -> int:
        """Return how many probes of the good end are missing to know how often it
        fails; at most 0 if none are, or if it never failed.
        """
        failures, runs = self.failures_at(self.good_end)
        if failures:
            return _END_PROBES - runs
        return 0

    def end_too_flaky(self) -> int | None:
        """Return the end whose probes differ too often to distinguish both states; None
        if none does, or too few probes were made.
        """
        belief = self.belief
        if (
            not belief.doubtful
            or belief.tally(self.bad_end).probes < _END_PROBES
            or self.probes_missing_at_good_end() > 0
        ):
            return None
        last = belief.size - 1
        false, missed = (
            belief.wrong_rate(0, Side.OLD),
            belief.wrong_rate(last, Side.NEW),
        )
        if missed + false <= _HIGHEST_RATES:
            return None
        if missed > false:
            return last
        return 0


def confirmations_needed(confidence: float) -> int:
    """Return how often a pair is probed again while every probe is trusted, for a
    culprit of this confidence.

    Assume that one probe in five is wrong, and that every second search meets such a
    probe at its pair. A wrong pair then passes n confirmations with a chance of
    0.5 * 0.2 ** n, which must not exceed 1 - confidence.
    """
    allowed = 2 * (1 - confidence)  # for 0.2 ** n
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
    sides = FailureSides(belief, failing)
    bad_end = sides.bad_end
    at_bad_end = belief.tally(bad_end).probes
    # how often are probes wrong?
    if belief.doubtful:
        pair = [belief.tally(index).probes for index, _ in belief.pair]
        more = max(_END_PROBES, *pair) - at_bad_end
        if more > 0:
            return {bad_end: more}
    more = sides.probes_missing_at_good_end()
    if more > 0:
        return {sides.good_end: more}
    # which candidate is it?
    if not belief.is_resolved(confidence):
        return dict.fromkeys(next_probes(belief, seconds, jobs), 1)
    # is it certain?
    missing = {}
    for index, side in belief.pair:
        count = belief.probes_missing(index, side, confidence)
        if count > 0:
            missing[index] = count
    if belief.doubtful:
        return dict.fromkeys(missing, 1) or sides.probes_to_settle(jobs)
    repeats = belief.repeats(confidence)
    # not testable any more
    if any(belief.tally(index).skipped > repeats for index in missing):
        return {}
    repeated = min(sides.failed_outside_pair(), key=again.__getitem__)
    if again[bad_end] - again[repeated] < _LEAST_SAVED:
        repeated = bad_end
    # Failures elsewhere do not count. Where the failure passed by chance, the search
    # put the pair there.
    more = 2 * repeats + 1 - belief.tally(repeated).probes
    more = max(missing.get(repeated, 0), more)
    if more > 0:
        missing[repeated] = more
    return missing or sides.probes_to_settle(jobs)


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
    is_open[[0, belief.size - 1, *belief.without_side]] = False
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
    """Return the bits that each cut adds to the results of other cuts; -1 for those.

    below: the probability that the first new one is at or before each cut. others:
    indices of cuts.
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
