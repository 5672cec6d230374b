"""The probability of each candidate to be the first one of the new state, and which to probe next. Pure values, no I/O.

Candidates are numbered 0 .. N-1, oldest first. Candidate 0 is known to be in the old state and N-1 in the new one, so one of
1 .. N-1 is the first new one. A candidate whose probability is not 0 is a suspect. A probe at `i` separates the suspects up
to `i` from those after it. A candidate that could not be tested stays a suspect.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.result import CONFIDENCE, Side

Floats = NDArray[np.float64]

# Used from the first time that a candidate contradicts itself; until then every probe is trusted.
WRONG = 0.08  # one probe in twelve may be wrong
WRONG_KNOWN = 20.0  # how many probes this knowledge is worth: the evidence itself changes it

_SWEEPS = 4  # how often each probe of a batch is moved to where it helps most
_WORTH_MOVING = 1.001  # factor that its information must grow by to be moved
_UNTESTABLE = 0.05  # share of candidates that cannot be tested, before any probe
_LEAST_SECONDS = 1e-9  # avoids a division by 0


@dataclass(frozen=True, slots=True)
class SuspectBlock:
    """Suspects `first` .. `last` that no possible probe can separate, and the sum of their probabilities."""

    first: int
    last: int
    probability: float


@dataclass(frozen=True, eq=False)
class Belief:
    """Probabilities of each candidate to be the first new one, given evidence in any order and with repeats."""

    prior: Floats
    """Shape (N,), sums to 1, 0 at candidate 0; `from_weights` makes one."""
    closed: frozenset[int] = frozenset()
    """Candidates that cannot be probed."""
    evidence: tuple[tuple[int, Side | None], ...] = ()
    """The side that each probe showed; None if it could not be tested."""
    doubtful: bool = False
    """Probes may be wrong. Otherwise a candidate that shows both sides counts for nothing, and of several changes from old to
    new the one nearest to the new end is searched, because it led to the new state.
    """

    @classmethod
    def from_weights(cls, weights: ArrayLike, closed: Collection[int] = ()) -> Belief:
        """Make a belief from one weight for each candidate; that of the first is ignored.

        Raises:
            ValueError: There are fewer than two candidates, or a weight is not a positive number.
        """
        prior = np.array(weights, dtype=np.float64)
        # No evidence could ever bring back a culprit with a prior of 0.
        if len(prior) < 2 or not (np.isfinite(prior).all() and (prior[1:] > 0).all()):
            raise ValueError("a range needs two candidates, and each after the first a positive, finite weight")
        prior[0] = 0.0
        return cls(prior / prior.sum(), frozenset(closed))

    @property
    def size(self) -> int:
        return len(self.prior)

    def observe(self, *evidence: tuple[int, Side | None]) -> Belief:
        """Add probes: a candidate and the side that it showed."""
        return replace(self, evidence=self.evidence + evidence)

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
    def skipped(self) -> list[int]:
        """Candidates that were probed and never had a result."""
        tested = {index for index, side in self.evidence if side is not None}
        return sorted({index for index, side in self.evidence if side is None} - tested)

    @cached_property
    def shut(self) -> list[int]:
        """Candidates that no probe can give a side."""
        contradictory = [] if self.doubtful else [index for index, (old, new) in self.counts.items() if old and new]
        return [*self.closed, *self.skipped, *contradictory]

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The last candidate taken as old and the first taken as new, if every probe is trusted."""
        first_new = self.size - 1
        for index, (old, new) in reversed(self.counts.items()):
            if old and not new:
                return index, first_new
            first_new = first_new if old else index
        return 0, first_new

    @cached_property
    def probabilities(self) -> Floats:
        """Shape (N,), sums to 1."""
        if self.doubtful:
            seen = np.array(list(self.counts.values()), dtype=np.int64).reshape(-1, 2)
            logs = []
            for cut in range(len(seen) + 1):  # the first new one lies between two neighbouring probed candidates
                (right, wrong), (missed, caught) = seen[:cut].sum(axis=0), seen[cut:].sum(axis=0)
                logs.append(_log_chance(wrong, right) + _log_chance(missed, caught))
            edges = [0, *(index + 1 for index in self.counts), self.size]
            posterior = self.prior * np.repeat(np.exp(np.array(logs) - max(logs)), np.diff(edges))
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
        """Return every suspect with its probability, the most likely first, the older first among equals."""
        order = np.argsort(-self.probabilities, kind="stable")
        return [(int(index), float(self.probabilities[index])) for index in order if self.probabilities[index] > 0]

    def credible(self, confidence: float) -> list[int]:
        """Return the fewest candidates that hold the first new one with this probability, oldest first."""
        held, chosen = 0.0, []
        for index, chance in self.suspects():
            if held >= confidence * (1 - 1e-12):
                break
            held += chance
            chosen.append(index)
        return sorted(chosen)

    @cached_property
    def leading(self) -> SuspectBlock:
        """The most likely suspects that cannot be separated, the older of two that are equal."""
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
        """Whether one block is likely enough, the candidate before it was seen in the old state, and its last in the new one.

        A prior alone never resolves anything. A block of one suspect is the culprit; more cannot be separated.
        """
        block, seen = self.leading, {0: (1, 0), self.size - 1: (0, 1), **self.counts}
        if block.probability < confidence - 1e-12:
            return False
        return seen.get(block.first - 1, (0, 0))[0] > 0 and seen.get(block.last, (0, 0))[1] > 0


def _log_chance(wrong: int, right: int) -> float:
    """Return the natural log of the chance of `wrong` wrong and `right` right probes (beta-binomial)."""
    a, b = WRONG * WRONG_KNOWN, (1 - WRONG) * WRONG_KNOWN
    return _log_beta(a + wrong, b + right) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def next_probes(belief: Belief, seconds: ArrayLike, jobs: int = 1) -> tuple[int, ...]:
    """Choose up to `jobs` candidates to probe at once, oldest first; none if no probe can help any more.

    A probe cuts the suspects in two. The best cuts give most information for the seconds that they cost. Candidates that were
    skipped are not chosen again.

    Args:
        belief: The suspects and their probabilities.
        seconds: Shape (N,), the cost of a probe.
        jobs: Probes that run at the same time.
    """
    is_open = np.ones(belief.size, dtype=np.bool_)
    is_open[[0, belief.size - 1, *belief.shut]] = False
    if not belief.doubtful:
        low, high = belief.bounds
        is_open[: low + 1] = is_open[high:] = False
    indices = np.flatnonzero(is_open)
    if len(indices) <= jobs:
        return tuple(map(int, indices))
    below = np.cumsum(belief.probabilities)[indices]  # probability that the first new one is at or before each cut
    cost = np.maximum(np.asarray(seconds)[indices], _LEAST_SECONDS) / (1 - _untestable_odds(belief)[indices])
    chosen: list[int] = []
    for part in range(1, jobs + 1):
        distance = np.abs(below - part / (jobs + 1))
        distance[chosen] = math.inf
        chosen.append(int(np.argmin(distance)))
    for _ in range(_SWEEPS):
        before = list(chosen)
        for number in range(jobs):
            gain = _added_information(below, chosen[:number] + chosen[number + 1 :]) / cost
            # Sums of probabilities differ in their last digits by machine: take the first of the best.
            best = int(np.flatnonzero(gain >= gain.max() * (1 - 1e-9))[0])
            if gain[best] > gain[chosen[number]] * _WORTH_MOVING:
                chosen[number] = best
        if chosen == before:
            break
    return tuple(sorted(int(indices[cut]) for cut in chosen))


def _untestable_odds(belief: Belief) -> Floats:
    """Estimate for each candidate the chance that it cannot be tested.

    Broken revisions come in runs of unknown length, so a candidate resembles those probed near it; the weight halves at
    twice the distance. As long as none was skipped, all candidates are alike.
    """
    untestable, probed = np.full(belief.size, _UNTESTABLE), np.ones(belief.size)
    for index in (*belief.skipped, *belief.counts) if belief.skipped else ():
        nearness = 1 / (1 + np.abs(np.arange(belief.size) - index) / 2)
        probed += nearness
        untestable += nearness if index in belief.skipped else 0.0
    odds: Floats = untestable / probed
    odds[list(belief.counts)] = 0.0
    return odds


def _added_information(below: Floats, others: list[int]) -> Floats:
    """Return the bits that each cut adds to the results of `others`; -1 for `others`."""
    edges = np.concatenate([[0.0], below[sorted(others)], [1.0]])
    part = np.clip(np.searchsorted(edges, below, side="right") - 1, 0, len(edges) - 2)
    start, width = edges[part], edges[part + 1] - edges[part]
    share = np.divide(below - start, width, out=np.zeros_like(width), where=width > 0)
    p = np.clip(share, 0.0, 1.0)  # rounding may leave a sum outside
    bits = -p * np.log2(np.where(p > 0, p, 1.0)) - (1 - p) * np.log2(np.where(p < 1, 1 - p, 1.0))
    gain: Floats = width * bits
    gain[others] = -1.0
    return gain
