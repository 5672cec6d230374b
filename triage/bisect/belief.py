"""What is believed about the first bad place of a line, as a value: no I/O, no clock, no callbacks.

Places are numbered 0 .. N-1, oldest first. Place 0 is known to be good and place N-1 known to be bad, so one of
1 .. N-1 is the first bad one: that is the hypothesis, and a place whose probability is not 0 is a suspect. A probe at `i`
tells the suspects up to `i` from those after it. A place that could not be tested stays a suspect: nothing was learnt.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.model.outcome import Verdict

Floats = NDArray[np.float64]
Evidence = tuple[tuple[int, Verdict], ...]


@dataclass(frozen=True, slots=True)
class Noise:
    """How often a probe is wrong: `false_good` of those after the change, `false_bad` of those before it (0 to below 1).

    certainty: how many probes this knowledge is worth. The rates are the means of Beta distributions with that many
    pseudo-observations, so the evidence itself moves them; infinite: they are known exactly.

    Raises:
        ValueError: a rate is outside its range, or both together leave a probe without meaning (their sum is 1 or more).
    """

    false_good: float = 0.0
    false_bad: float = 0.0
    certainty: float = math.inf

    def __post_init__(self) -> None:
        if not (0 <= self.false_good < 1 and 0 <= self.false_bad < 1 and self.false_good + self.false_bad < 1):
            raise ValueError(f"rates of wrong probes must be in [0, 1) and sum to less than 1: {self}")
        if not self.certainty > 0:
            raise ValueError(f"certainty must be positive: {self}")

    @property
    def exact(self) -> bool:
        """Whether every verdict is taken at its word."""
        return self.false_good == 0 and self.false_bad == 0


EXACT = Noise()
# One probe in twenty may be wrong, and twenty probes suffice to think otherwise. For lines where a place has been seen to
# disagree with itself; a compiler that never did is taken at its word.
FLAKY = Noise(0.05, 0.05, certainty=20.0)


@dataclass(frozen=True, slots=True)
class Block:
    """Suspects `first` .. `last` that no possible probe can tell apart, and their probability together."""

    first: int
    last: int
    probability: float


@dataclass(frozen=True, eq=False)
class Belief:
    """Probabilities of each place to be the first bad one, given `evidence`, in any order and with repeats.

    prior: shape (N,), non-negative, sums to 1, 0 at place 0; `from_weights` and `uniform` make one.
    recalled: how many of the first pieces of evidence were known before the search began and cost it nothing.
    noise: with `EXACT`, evidence that contradicts itself does not end the search: a place with both verdicts loses its
    say, and of several changes from good to bad the one nearest to the bad end is pursued, because it led there.
    """

    prior: Floats
    evidence: Evidence = ()
    noise: Noise = EXACT
    recalled: int = 0

    @classmethod
    def uniform(cls, places: int, noise: Noise = EXACT) -> Belief:
        """All of 1 .. places - 1 alike.

        Raises:
            ValueError: there are fewer than two places.
        """
        return cls.from_weights(np.ones(places), noise)

    @classmethod
    def from_weights(cls, weights: ArrayLike, noise: Noise = EXACT) -> Belief:
        """`weights`: shape (N,), one for each place; the first is ignored, the others must be positive.

        Raises:
            ValueError: fewer than two places, or a weight that is not a positive number.
        """
        prior = np.array(weights, dtype=np.float64)
        if prior.ndim != 1 or len(prior) < 2:
            raise ValueError("a line needs two places: a good one and a bad one")
        prior[0] = 0.0
        # A prior of 0 would make a culprit that no evidence can bring back.
        if not (np.isfinite(prior).all() and (prior[1:] > 0).all()):
            raise ValueError("every place after the first needs a positive, finite weight")
        prior /= prior.sum()
        prior.setflags(write=False)
        return cls(prior, (), noise)

    @property
    def places(self) -> int:
        """N."""
        return len(self.prior)

    def observe(self, index: int, verdict: Verdict) -> Belief:
        """With one more probe. A `SKIP` leaves all probabilities as they are.

        Raises:
            ValueError: `index` is none of the places.
        """
        return self.observe_all([(index, verdict)])

    def observe_all(self, evidence: Iterable[tuple[int, Verdict]]) -> Belief:
        """With several more probes.

        Raises:
            ValueError: an index is none of the places.
        """
        new = tuple(evidence)
        for index, _ in new:
            if not 0 <= index < self.places:
                raise ValueError(f"there is no place {index} among {self.places}")
        return replace(self, evidence=self.evidence + new)

    def recall(self, evidence: Iterable[tuple[int, Verdict]]) -> Belief:
        """With probes that were known before the search begins.

        Raises:
            ValueError: an index is none of the places, or the search has begun.
        """
        if len(self.evidence) > self.recalled:
            raise ValueError("what is recalled comes before what is observed")
        known = self.observe_all(evidence)
        return replace(known, recalled=len(known.evidence))

    def with_noise(self, noise: Noise) -> Belief:
        """The same evidence, trusted differently."""
        return replace(self, noise=noise)

    @cached_property
    def counts(self) -> dict[int, tuple[int, int]]:
        """(good, bad) verdicts by place, for inner places that got any; the ends are known."""
        counts: dict[int, tuple[int, int]] = {}
        for index, verdict in self.evidence:
            if verdict is not Verdict.SKIP and 0 < index < self.places - 1:
                good, bad = counts.get(index, (0, 0))
                counts[index] = (good + (verdict is Verdict.GOOD), bad + (verdict is Verdict.BAD))
        return dict(sorted(counts.items()))

    @cached_property
    def skipped(self) -> frozenset[int]:
        """Places that were probed and never told anything."""
        said = {index for index, verdict in self.evidence if verdict is not Verdict.SKIP}
        return frozenset(index for index, verdict in self.evidence if verdict is Verdict.SKIP and index not in said)

    @cached_property
    def contradictory(self) -> frozenset[int]:
        """Places with both verdicts."""
        return frozenset(index for index, (good, bad) in self.counts.items() if good and bad)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The last place taken as good and the first taken as bad, verdicts at their word: exact noise's reading."""
        bad_from = self.places - 1
        for index in reversed(self.counts):
            if index in self.contradictory:
                continue
            if self.counts[index][0]:
                return index, bad_from
            bad_from = index
        return 0, bad_from

    @cached_property
    def disbelieved(self) -> tuple[int, ...]:
        """Places whose verdicts exact noise has to ignore: they contradict themselves, or a good place after them."""
        low, _ = self.bounds
        return tuple(index for index, (_, bad) in self.counts.items() if index in self.contradictory or (bad and index < low))

    @cached_property
    def probabilities(self) -> Floats:
        """Shape (N,), sums to 1, read-only."""
        if self.noise.exact:
            low, high = self.bounds
            posterior = np.zeros(self.places)
            posterior[low + 1 : high + 1] = self.prior[low + 1 : high + 1]
        else:
            edges, logs = self._likelihood()
            posterior = self.prior * np.repeat(np.exp(logs - logs.max()), np.diff(edges))
        posterior /= posterior.sum()
        posterior.setflags(write=False)
        return posterior

    def _likelihood(self) -> tuple[NDArray[np.int64], Floats]:
        """Natural log-likelihood of the evidence: constant for all hypotheses between two neighbouring probed places.

        Returns edges, shape (S + 1,), and logs, shape (S,): hypotheses edges[s] .. edges[s + 1] - 1 have logs[s].
        """
        probed = list(self.counts)
        goods = np.array([good for good, _ in self.counts.values()], dtype=np.int64)
        bads = np.array([bad for _, bad in self.counts.values()], dtype=np.int64)
        good_before = np.concatenate([[0], np.cumsum(goods)])
        bad_before = np.concatenate([[0], np.cumsum(bads)])
        good_after, bad_after = good_before[-1] - good_before, bad_before[-1] - bad_before
        sure = self.noise.certainty
        logs = np.array(
            [
                _log_chance(int(wrong), int(right), self.noise.false_bad, sure)
                + _log_chance(int(missed), int(caught), self.noise.false_good, sure)
                for wrong, right, missed, caught in zip(bad_before, good_before, good_after, bad_after, strict=True)
            ]
        )
        return np.array([0, *(index + 1 for index in probed), self.places], dtype=np.int64), logs

    @cached_property
    def learnt(self) -> Noise:
        """The noise with its rates as the evidence has moved them: means over all suspects. Known rates stay."""
        if self.noise.exact or math.isinf(self.noise.certainty):
            return self.noise
        edges, _ = self._likelihood()
        mass = np.add.reduceat(self.probabilities, edges[:-1])
        goods = np.array([good for good, _ in self.counts.values()], dtype=np.int64)
        bads = np.array([bad for _, bad in self.counts.values()], dtype=np.int64)
        good_before, bad_before = np.concatenate([[0], np.cumsum(goods)]), np.concatenate([[0], np.cumsum(bads)])
        good_after, bad_after = good_before[-1] - good_before, bad_before[-1] - bad_before
        sure = self.noise.certainty
        false_bad = float(mass @ ((self.noise.false_bad * sure + bad_before) / (sure + bad_before + good_before)))
        false_good = float(mass @ ((self.noise.false_good * sure + good_after) / (sure + bad_after + good_after)))
        return Noise(false_good, false_bad, sure) if false_good + false_bad < 1 else self.noise

    @property
    def entropy(self) -> float:
        """Bits of what is not known."""
        some = self.probabilities[self.probabilities > 0]
        return float(-(some * np.log2(some)).sum()) + 0.0

    def suspects(self) -> tuple[tuple[int, float], ...]:
        """Every suspect with its probability, likeliest first, older first among equals."""
        order = np.argsort(-self.probabilities, kind="stable")
        return tuple((int(index), float(self.probabilities[index])) for index in order if self.probabilities[index] > 0)

    def credible(self, confidence: float = 0.9) -> tuple[int, ...]:
        """The fewest places that hold the first bad one with this probability, oldest first.

        Raises:
            ValueError: `confidence` is not in (0, 1].
        """
        if not 0 < confidence <= 1:
            raise ValueError(f"confidence must be in (0, 1]: {confidence}")
        order = np.argsort(-self.probabilities, kind="stable")
        order = order[self.probabilities[order] > 0]
        held = np.cumsum(self.probabilities[order])
        count = int(np.searchsorted(held, confidence * (1 - 1e-12))) + 1
        return tuple(sorted(int(index) for index in order[:count]))

    def blocks(self, closed: Collection[int] = ()) -> tuple[Block, ...]:
        """The suspects in runs that cannot be told apart, oldest first. `closed`: places that cannot be probed, beside
        those that were skipped.
        """
        shut = np.zeros(self.places, dtype=np.bool_)
        shut[[*self.skipped, *closed]] = True
        if self.noise.exact:
            shut[list(self.contradictory)] = True
        firsts = np.flatnonzero(~shut[:-1]) + 1  # a place begins a block when its predecessor can be probed
        firsts = np.unique(np.concatenate([[1], firsts]))
        lasts = np.concatenate([firsts[1:] - 1, [self.places - 1]])
        mass = np.add.reduceat(self.probabilities, firsts)
        cut = [
            Block(int(first), int(last), float(held)) for first, last, held in zip(firsts, lasts, mass, strict=True) if held > 0
        ]
        if not self.noise.exact:
            return tuple(cut)
        low, high = self.bounds
        return tuple(replace(one, first=max(one.first, low + 1), last=min(one.last, high)) for one in cut)

    def leading(self, closed: Collection[int] = ()) -> Block:
        """The likeliest block, the older of two that are alike."""
        return max(self.blocks(closed), key=lambda block: (round(block.probability, 12), -block.first))

    def is_resolved(self, confidence: float = 0.95, closed: Collection[int] = ()) -> bool:
        """Whether one block is likely enough and witnessed: the place before it was seen good, its last one bad.

        A prior alone never resolves anything, however sure it is. One suspect in the block: it is the culprit. Several:
        they are all that can be found out.
        """
        block = self.leading(closed)
        return block.probability >= confidence - 1e-12 and not self.missing_witnesses(block)

    def missing_witnesses(self, block: Block) -> tuple[int, ...]:
        """Which of the two places that convict a block have not been seen in the state it needs."""
        before = block.first - 1
        unseen = [before] if before > 0 and not self.counts.get(before, (0, 0))[0] else []
        if block.last < self.places - 1 and not self.counts.get(block.last, (0, 0))[1]:
            unseen.append(block.last)
        return tuple(unseen)


def learnt_noise(repeats: Iterable[Sequence[Verdict]], prior: Noise = FLAKY) -> Noise:
    """The flake rate that repeated probes of the same place show, whatever the place's true state.

    repeats: for each place, the verdicts it gave. The minority counts as wrong, half of a tie does: a probe is as likely
    to be wrong towards good as towards bad when the truth is not known. `prior` is a Beta of `prior.certainty` probes with
    the mean of its two rates; the answer has its posterior mean for both rates and the certainty grown by what was seen.
    """
    if math.isinf(prior.certainty):
        return prior
    wrong = probes = 0.0
    for verdicts in repeats:
        good, bad = verdicts.count(Verdict.GOOD), verdicts.count(Verdict.BAD)
        if good + bad > 1:
            wrong += min(good, bad)
            probes += good + bad
    sure = prior.certainty + probes
    rate = ((prior.false_good + prior.false_bad) / 2 * prior.certainty + wrong) / sure
    rate = min(rate, 0.49)
    return Noise(rate, rate, sure)


def _log_chance(wrong: int, right: int, rate: float, certainty: float) -> float:
    """Natural log of the chance of `wrong` wrong and `right` right probes; Beta-binomial unless the rate is known."""
    if rate == 0:
        return -math.inf if wrong else 0.0
    if math.isinf(certainty):
        return wrong * math.log(rate) + right * math.log1p(-rate)
    a, b = rate * certainty, (1 - rate) * certainty
    return _log_beta(a + wrong, b + right) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
