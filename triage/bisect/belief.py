"""The probability of each candidate to be the first one of the new state. Pure values: no I/O, no clock, no callbacks.

Candidates are numbered 0 .. N-1, oldest first. Candidate 0 is known to be in the old state and N-1 in the new one, so one of
1 .. N-1 is the first new one. A candidate whose probability is not 0 is a suspect. A probe at `i` separates the suspects up
to `i` from those after it. A candidate that could not be tested stays a suspect.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.result import CONFIDENCE, Side

Floats = NDArray[np.float64]
Evidence = tuple[tuple[int, Side | None], ...]


@dataclass(frozen=True, slots=True)
class Noise:
    """How often a probe shows the wrong side: `false_old` of those after the change, `false_new` of those before it.

    Both lie in [0, 1). certainty: how many probes this knowledge is worth. The rates are the means of Beta distributions with
    that many pseudo-observations, so the evidence itself moves them; infinite when they are known exactly.

    Raises:
        ValueError: A rate is out of range, or the rates sum to 1 or more, so that a probe would mean nothing.
    """

    false_old: float = 0.0
    false_new: float = 0.0
    certainty: float = math.inf

    def __post_init__(self) -> None:
        if not (0 <= self.false_old < 1 and 0 <= self.false_new < 1 and self.false_old + self.false_new < 1):
            raise ValueError(f"rates of wrong probes must be in [0, 1) and sum to less than 1: {self}")
        if not self.certainty > 0:
            raise ValueError(f"certainty must be positive: {self}")

    @property
    def exact(self) -> bool:
        """Whether every probe is trusted."""
        return self.false_old == 0 and self.false_new == 0


EXACT = Noise()
# One probe in twelve may be wrong, and twenty probes are enough to change that estimate. Used from the first time that a
# candidate contradicts itself; until then every probe is trusted.
FLAKY = Noise(0.08, 0.08, certainty=20.0)


@dataclass(frozen=True, slots=True)
class SuspectBlock:
    """Suspects `first` .. `last` that no possible probe can separate, and the sum of their probabilities."""

    first: int
    last: int
    probability: float


@dataclass(frozen=True, eq=False)
class Belief:
    """Probabilities of each candidate to be the first new one, given `evidence` in any order and with repeats.

    prior: shape (N,), non-negative, sums to 1, 0 at candidate 0; `from_weights` and `uniform` make one.
    evidence: side by candidate; None for a probe that could not be tested.
    noise: with `EXACT`, a candidate with both sides counts for nothing, and of several changes from old to new the one
    nearest to the new end is searched, because it led to the new state.
    """

    prior: Floats
    evidence: Evidence = ()
    noise: Noise = EXACT

    @classmethod
    def from_weights(cls, weights: ArrayLike, noise: Noise = EXACT) -> Belief:
        """Start from one weight for each candidate, shape (N,); the first is ignored, the others must be positive.

        Raises:
            ValueError: Fewer than two candidates, or a weight that is not a positive number.
        """
        prior = np.array(weights, dtype=np.float64)
        if prior.ndim != 1 or len(prior) < 2:
            raise ValueError("a range needs two candidates: an old one and a new one")
        prior[0] = 0.0
        # No evidence could ever bring back a culprit with a prior of 0.
        if not (np.isfinite(prior).all() and (prior[1:] > 0).all()):
            raise ValueError("every candidate after the first needs a positive, finite weight")
        prior /= prior.sum()
        prior.setflags(write=False)
        return cls(prior, (), noise)

    @property
    def size(self) -> int:
        """Number of candidates, N."""
        return len(self.prior)

    def observe(self, index: int, side: Side | None) -> Belief:
        """Add one probe. None leaves all probabilities as they are.

        Raises:
            ValueError: There is no candidate `index`.
        """
        return self.observe_all([(index, side)])

    def observe_all(self, evidence: Iterable[tuple[int, Side | None]]) -> Belief:
        """Add several probes.

        Raises:
            ValueError: There is no candidate of one of the indices.
        """
        new = tuple(evidence)
        for index, _ in new:
            if not 0 <= index < self.size:
                raise ValueError(f"there is no candidate {index} among {self.size}")
        return replace(self, evidence=self.evidence + new)

    def with_noise(self, noise: Noise) -> Belief:
        """Keep the evidence and change how far it is trusted."""
        return replace(self, noise=noise)

    @cached_property
    def counts(self) -> dict[int, tuple[int, int]]:
        """(old, new) results of the inner candidates that have any; the ends are known."""
        counts: dict[int, tuple[int, int]] = {}
        for index, side in self.evidence:
            if side is not None and 0 < index < self.size - 1:
                old, new = counts.get(index, (0, 0))
                counts[index] = (old + (side is Side.OLD), new + (side is Side.NEW))
        return dict(sorted(counts.items()))

    @cached_property
    def skipped(self) -> frozenset[int]:
        """Candidates that were probed and never had a result."""
        tested = {index for index, side in self.evidence if side is not None}
        return frozenset(index for index, side in self.evidence if side is None and index not in tested)

    @cached_property
    def contradictory(self) -> frozenset[int]:
        """Candidates that showed both sides."""
        return frozenset(index for index, (old, new) in self.counts.items() if old and new)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The last candidate taken as old and the first taken as new, when every probe is trusted."""
        first_new = self.size - 1
        for index in reversed(self.counts):
            if index in self.contradictory:
                continue
            if self.counts[index][0]:
                return index, first_new
            first_new = index
        return 0, first_new

    @cached_property
    def probabilities(self) -> Floats:
        """Shape (N,), sums to 1, read-only."""
        if self.noise.exact:
            low, high = self.bounds
            posterior = np.zeros(self.size)
            posterior[low + 1 : high + 1] = self.prior[low + 1 : high + 1]
        else:
            noise = self.noise
            logs = np.array(
                [
                    _log_chance(int(wrong), int(right), noise.false_new, noise.certainty)
                    + _log_chance(int(missed), int(caught), noise.false_old, noise.certainty)
                    for (right, wrong), (missed, caught) in zip(*self._tallies, strict=True)
                ]
            )
            posterior = self.prior * np.repeat(np.exp(logs - logs.max()), np.diff(self._edges))
        posterior /= posterior.sum()
        posterior.setflags(write=False)
        return posterior

    @cached_property
    def _tallies(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(old, new) results before the suspects of each stretch, and from them on, shape (S, 2) both.

        A stretch lies between two neighbouring probed candidates; all its suspects explain the evidence equally well.
        """
        seen = np.array(list(self.counts.values()), dtype=np.int64).reshape(-1, 2)
        before = np.concatenate([np.zeros((1, 2), dtype=np.int64), np.cumsum(seen, axis=0)])
        return before, before[-1] - before

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """Shape (S + 1,): stretch s has the suspects edges[s] .. edges[s + 1] - 1."""
        return np.array([0, *(index + 1 for index in self.counts), self.size], dtype=np.int64)

    @property
    def entropy(self) -> float:
        """Bits of information that are missing."""
        chances = self.probabilities[self.probabilities > 0]
        return float(-(chances * np.log2(chances)).sum()) + 0.0

    @property
    def steps(self) -> int:
        """About how many probes are missing, at least 1."""
        return max(1, math.ceil(self.entropy - 0.1))

    def suspects(self) -> tuple[tuple[int, float], ...]:
        """Every suspect with its probability, the most likely first, the older first among equals."""
        order = np.argsort(-self.probabilities, kind="stable")
        return tuple((int(index), float(self.probabilities[index])) for index in order if self.probabilities[index] > 0)

    def credible(self, confidence: float = 0.9) -> tuple[int, ...]:
        """The fewest candidates that hold the first new one with this probability, oldest first.

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

    def blocks(self, closed: Collection[int] = ()) -> tuple[SuspectBlock, ...]:
        """The suspects in runs that cannot be separated, oldest first.

        Args:
            closed: Candidates that cannot be probed, besides those that were skipped.
        """
        shut = np.zeros(self.size, dtype=np.bool_)
        shut[[*self.skipped, *closed]] = True
        if self.noise.exact:
            shut[list(self.contradictory)] = True
        firsts = np.flatnonzero(~shut[:-1]) + 1  # a candidate begins a block when its predecessor can be probed
        firsts = np.unique(np.concatenate([[1], firsts]))
        lasts = np.concatenate([firsts[1:] - 1, [self.size - 1]])
        masses = np.add.reduceat(self.probabilities, firsts)
        blocks = [
            SuspectBlock(int(first), int(last), float(mass))
            for first, last, mass in zip(firsts, lasts, masses, strict=True)
            if mass > 0
        ]
        if not self.noise.exact:
            return tuple(blocks)
        low, high = self.bounds
        return tuple(replace(block, first=max(block.first, low + 1), last=min(block.last, high)) for block in blocks)

    def leading(self, closed: Collection[int] = ()) -> SuspectBlock:
        """The most likely block, the older of two that are equal."""
        return max(self.blocks(closed), key=lambda block: (round(block.probability, 12), -block.first))

    def is_resolved(self, confidence: float = CONFIDENCE, closed: Collection[int] = ()) -> bool:
        """Whether one block is likely enough, the candidate before it was seen in the old state, and its last in the new one.

        A prior alone never resolves anything. A block of one suspect is the culprit; more cannot be separated.
        """
        block = self.leading(closed)
        return block.probability >= confidence - 1e-12 and not self.missing_witnesses(block)

    def missing_witnesses(self, block: SuspectBlock) -> tuple[int, ...]:
        """Which of the two candidates around a block have not been seen in the state that convicts it."""
        before = block.first - 1
        missing = [before] if before > 0 and not self.counts.get(before, (0, 0))[0] else []
        if block.last < self.size - 1 and not self.counts.get(block.last, (0, 0))[1]:
            missing.append(block.last)
        return tuple(missing)


def _log_chance(wrong: int, right: int, rate: float, certainty: float) -> float:
    """Natural log of the chance of `wrong` wrong and `right` right probes; beta-binomial unless the rate is known."""
    if rate == 0:
        return -math.inf if wrong else 0.0
    if math.isinf(certainty):
        return wrong * math.log(rate) + right * math.log1p(-rate)
    a, b = rate * certainty, (1 - rate) * certainty
    return _log_beta(a + wrong, b + right) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
