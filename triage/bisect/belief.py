"""What is believed about the first bad place of a line, as a value: no I/O, no clock, no callbacks.

Places are numbered 0 .. N-1, oldest first. Place 0 is known to be good and place N-1 known to be bad, so one of
1 .. N-1 is the first bad one: that is the hypothesis, and a place whose probability is not 0 is a suspect. A probe at `i`
tells the suspects up to `i` from those after it. A place that could not be tested stays a suspect: nothing was learnt.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.belief_noise import EXACT, FLAKY, Noise, learnt_noise, log_chance
from triage.model.outcome import Verdict

__all__ = ["CONFIDENCE", "EXACT", "FLAKY", "Belief", "Block", "Evidence", "Floats", "Noise", "learnt_noise"]

Floats = NDArray[np.float64]
CONFIDENCE = 0.995  # of a culprit; where the noise is what the belief takes it for, it is right at least about as often
Evidence = tuple[tuple[int, Verdict], ...]


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
    noise: with `EXACT`, evidence that contradicts itself does not end the search: a place with both verdicts loses its
    say, and of several changes from good to bad the one nearest to the bad end is pursued, because it led there.
    """

    prior: Floats
    evidence: Evidence = ()
    noise: Noise = EXACT

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
    def probabilities(self) -> Floats:
        """Shape (N,), sums to 1, read-only."""
        if self.noise.exact:
            low, high = self.bounds
            posterior = np.zeros(self.places)
            posterior[low + 1 : high + 1] = self.prior[low + 1 : high + 1]
        else:
            rates = self.noise
            logs = np.array(
                [
                    log_chance(int(wrong), int(right), rates.false_bad, rates.certainty)
                    + log_chance(int(missed), int(caught), rates.false_good, rates.certainty)
                    for (right, wrong), (missed, caught) in zip(*self._tallies, strict=True)
                ]
            )
            posterior = self.prior * np.repeat(np.exp(logs - logs.max()), np.diff(self._edges))
        posterior /= posterior.sum()
        posterior.setflags(write=False)
        return posterior

    @cached_property
    def _tallies(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Verdicts (good, bad) before the hypotheses of each stretch and from them on, shape (S, 2) both. A stretch lies
        between two neighbouring probed places; all its hypotheses explain the evidence alike.
        """
        seen = np.array(list(self.counts.values()), dtype=np.int64).reshape(-1, 2)
        before = np.concatenate([np.zeros((1, 2), dtype=np.int64), np.cumsum(seen, axis=0)])
        return before, before[-1] - before

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """Shape (S + 1,): stretch s has the hypotheses edges[s] .. edges[s + 1] - 1."""
        return np.array([0, *(index + 1 for index in self.counts), self.places], dtype=np.int64)

    @cached_property
    def learnt(self) -> Noise:
        """The noise with its rates as the evidence has moved them: means over all suspects. Known rates stay."""
        noise, sure = self.noise, self.noise.certainty
        if noise.exact or math.isinf(sure):
            return noise
        before, after = self._tallies
        mass = np.add.reduceat(self.probabilities, self._edges[:-1])
        false_bad = float(mass @ ((noise.false_bad * sure + before[:, 1]) / (sure + before.sum(axis=1))))
        false_good = float(mass @ ((noise.false_good * sure + after[:, 0]) / (sure + after.sum(axis=1))))
        return Noise(false_good, false_bad, sure) if false_good + false_bad < 1 else noise

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

    def is_resolved(self, confidence: float = CONFIDENCE, closed: Collection[int] = ()) -> bool:
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
