"""Choose the candidates to probe next. Pure values: no I/O, no clock, no callbacks.

A probe at a candidate cuts the suspects in two: those up to it and those after it. One at a time and with exact verdicts,
the cut is the root of the search tree with the least expected seconds. Several at once, or with noise, the cuts divide the
probability of the suspects as evenly as their costs allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.belief import Belief, Floats
from triage.bisect.result import SPARE

_TREE_CUTS = 49  # cuts a search tree is built over; its time grows with their cube
_BATCH_CUTS = 255  # cuts a batch is chosen from
_SWEEPS = 4  # how often each cut of a batch is moved to its best position
_WORTH_MOVING = 1.001  # factor that a cut's information must grow by to be moved
_EQUAL_COSTS = 1.5  # costs within this factor count as equal
_UNTESTABLE, _PROBED = 0.05, 1.0  # pseudo-counts: before any probe, 5 % of candidates are taken as untestable
_LEAST_SECONDS = 1e-9  # avoids a division by 0


def next_probes(
    belief: Belief,
    seconds: ArrayLike | None = None,
    jobs: int = 1,
    *,
    untestable: ArrayLike | None = None,
    spare: int = SPARE,
) -> tuple[int, ...]:
    """Choose up to `jobs` distinct candidates to probe at once, oldest first; empty when no probe can help any more.

    Candidates that were skipped are not chosen again. With exact verdicts, every candidate testable and one job, a search
    whose probes cost the same needs at most `spare` probes more than halving does for the worst suspect, whatever the prior.
    With cheap candidates and dear ones, this holds for the dear probes that follow the cheap ones.

    Args:
        belief: The suspects and their probabilities.
        seconds: Shape (N,), the cost of a probe, infinite where a candidate cannot be probed; all equal when None. Of
            candidates in the evidence, what their probe cost.
        jobs: Probes that run at the same time.
        untestable: Shape (N,), the chance that a candidate turns out untestable; estimated from the belief when None.
        spare: What the guess of the prior may cost: with 0, every search takes as many probes as halving at worst.

    Raises:
        ValueError: An array has another shape or values out of range, `jobs` is less than 1, or `spare` less than 0.
    """
    if jobs < 1 or spare < 0:
        raise ValueError(f"at least one job is needed, and no less than 0 spare probes: {jobs}, {spare}")
    cuts = _open_cuts(belief, seconds, untestable)
    if len(cuts.indices) <= jobs:
        return tuple(int(index) for index in cuts.indices)
    if jobs == 1 and belief.noise.exact:
        return (_cheapest_root(cuts, _probes_left(belief, cuts, seconds, spare)),)
    return _even_cuts(cuts.thinned(max(_BATCH_CUTS, 4 * jobs)), jobs)


def untestable_odds(belief: Belief) -> Floats:
    """Estimate for each candidate the chance that it cannot be tested, shape (N,), from the candidates probed so far.

    Broken revisions come in runs of unknown length, so a candidate resembles those probed near it; the weight halves at
    twice the distance. As long as none was skipped, all candidates are alike.
    """
    skipped, tested = sorted(belief.skipped), list(belief.counts)
    untestable, probed = np.full(belief.size, _UNTESTABLE), np.full(belief.size, _PROBED)
    positions = np.arange(belief.size)
    for index in skipped + tested if skipped else ():
        nearness = 1 / (1 + np.abs(positions - index) / 2)
        probed += nearness
        if index in belief.skipped:
            untestable += nearness
    odds: Floats = untestable / probed
    odds[tested] = 0.0
    odds[skipped] = 1.0
    return odds


def information(belief: Belief) -> Floats:
    """Compute the expected information of one exact probe of each candidate in bits, shape (N,)."""
    cuts = _open_cuts(belief, None, None)
    bits = np.zeros(belief.size)
    bits[cuts.indices] = cuts.testable * _entropy(cuts.below)
    return bits


@dataclass(frozen=True, slots=True)
class _Cuts:
    """Candidates whose probe can help, oldest first; all arrays have shape (C,).

    below: probability that the first new candidate is at or before the cut. seconds: positive. testable: chance that the
    probe has a result, positive.
    """

    indices: NDArray[np.int64]
    below: Floats
    seconds: Floats
    testable: Floats

    @property
    def cost(self) -> Floats:
        """Expected seconds for one result about there."""
        cost: Floats = self.seconds / self.testable
        return cost

    def thinned(self, count: int) -> _Cuts:
        """Keep at most `count` cuts: the cheapest one of each of as many equal steps of probability."""
        if len(self.indices) <= count:
            return self
        scaled = self.below * count
        step = np.minimum(scaled.astype(np.int64), count - 1)
        order = np.lexsort((self.indices, np.abs(scaled - step - 0.5), self.cost, step))
        _, firsts = np.unique(step[order], return_index=True)
        chosen = np.sort(order[firsts])
        return _Cuts(self.indices[chosen], self.below[chosen], self.seconds[chosen], self.testable[chosen])


def _open_cuts(belief: Belief, seconds: ArrayLike | None, untestable: ArrayLike | None) -> _Cuts:
    cost = np.ones(belief.size) if seconds is None else np.asarray(seconds, dtype=np.float64)
    odds = untestable_odds(belief) if untestable is None else np.asarray(untestable, dtype=np.float64)
    if cost.shape != (belief.size,) or odds.shape != (belief.size,):
        raise ValueError(f"seconds and odds need one entry for each of {belief.size} candidates")
    if not (cost >= 0).all() or not ((odds >= 0) & (odds <= 1)).all():
        raise ValueError("seconds must not be negative, and odds must lie in [0, 1]")
    is_open = np.isfinite(cost) & (odds < 1)
    is_open[[0, belief.size - 1, *belief.skipped]] = False
    if belief.noise.exact:
        low, high = belief.bounds
        is_open[: low + 1] = is_open[high:] = False
        is_open[list(belief.contradictory)] = False
    indices = np.flatnonzero(is_open)
    below = np.cumsum(belief.probabilities)[indices]
    return _Cuts(indices, below, np.maximum(cost[indices], _LEAST_SECONDS), 1 - odds[indices])


def _entropy(chance: ArrayLike) -> Floats:
    """Entropy of a yes-or-no question in bits."""
    p = np.clip(np.asarray(chance, dtype=np.float64), 0.0, 1.0)  # rounding may leave a sum outside
    bits: Floats = -p * np.log2(np.where(p > 0, p, 1.0)) - (1 - p) * np.log2(np.where(p < 1, 1 - p, 1.0))
    return bits


def _probes_left(belief: Belief, cuts: _Cuts, seconds: ArrayLike | None, spare: int) -> int | None:
    """Return how many probes of the open cuts the worst suspect may need; None where they differ in their cost.

    Probes that were much cheaper are a search of their own that came before: what it left is what halving begins with.
    """
    if cuts.seconds.max() > _EQUAL_COSTS * cuts.seconds.min():
        return None
    cost = np.ones(belief.size) if seconds is None else np.asarray(seconds, dtype=np.float64)
    is_dear = {index: bool(cost[index] * _EQUAL_COSTS >= cuts.seconds.min()) for index, _ in belief.evidence}
    low, high = replace(belief, evidence=tuple(entry for entry in belief.evidence if not is_dear[entry[0]])).bounds
    asked = sum(side is not None and is_dear[index] for index, side in belief.evidence)
    return math.ceil(math.log2(high - low)) + spare - asked


def _cheapest_root(cuts: _Cuts, left: int | None) -> int:
    """Choose the cut that the search tree with the least expected seconds probes first.

    Only cuts are allowed that leave no side more suspects than the remaining probes, one fewer than `left`, can tell apart: a
    wrong prior would otherwise cost a probe for each halving of a small probability.
    """
    few = cuts.thinned(_TREE_CUTS)
    costs = root_costs(np.diff(np.concatenate([[0.0], few.below, [1.0]])), few.cost)
    if left is not None:
        older = np.searchsorted(cuts.indices, few.indices) + 1
        larger = np.maximum(older, len(cuts.indices) + 1 - older)
        if larger.min() > 2 ** (left - 1):
            return int(cuts.indices[(len(cuts.indices) - 1) // 2])
        costs[larger > 2 ** (left - 1)] = math.inf
    best = np.flatnonzero(costs <= costs.min() * (1 + 1e-9))
    off_middle = np.abs(few.below[best] - 0.5)
    return int(few.indices[best[np.flatnonzero(off_middle <= off_middle.min() + 1e-9)[0]]])


def root_costs(chances: Floats, costs: Floats) -> Floats:
    """Compute for each cut the expected cost of the cheapest search tree that begins with it, shape (P - 1,).

    A search tree separates all parts; between neighbouring parts lies one cut. A tree costs the cost of its first cut times
    its probability, plus the costs of both subtrees.

    Args:
        chances: Shape (P,), P at least 2, the probability of each part.
        costs: Shape (P - 1,), positive.
    """
    parts = len(chances)
    edges = np.concatenate([[0.0], np.cumsum(chances)])
    cheapest = np.zeros((parts + 1, parts + 1))  # by the first part and the end of a run of parts
    for length in range(2, parts + 1):
        for first in range(parts - length + 1):
            end = first + length
            trees: Floats = (edges[end] - edges[first]) * costs[first : end - 1]
            trees += cheapest[first, first + 1 : end] + cheapest[first + 1 : end, end]
            cheapest[first, end] = trees.min()
    return trees


def _even_cuts(cuts: _Cuts, jobs: int) -> tuple[int, ...]:
    """Choose `jobs` cuts that divide the probability evenly: each is moved to where it helps most beside the others."""
    chosen: list[int] = []
    for part in range(1, jobs + 1):
        distance = np.abs(cuts.below - part / (jobs + 1))
        distance[chosen] = math.inf
        chosen.append(int(np.argmin(distance)))
    for _ in range(_SWEEPS):
        before = list(chosen)
        for number in range(jobs):
            gain = _added_information(cuts, chosen[:number] + chosen[number + 1 :])
            # Sums of probabilities differ in their last digits by machine: take the first of the best.
            best = int(np.flatnonzero(gain >= gain.max() * (1 - 1e-9))[0])
            if gain[best] > gain[chosen[number]] * _WORTH_MOVING:
                chosen[number] = best
        if chosen == before:
            break
    return tuple(sorted(int(cuts.indices[cut]) for cut in chosen))


def _added_information(cuts: _Cuts, others: list[int]) -> Floats:
    """Compute the bits a second that each cut adds to the results of `others`, shape (C,); -1 for `others`."""
    edges = np.concatenate([[0.0], cuts.below[sorted(others)], [1.0]])
    part = np.clip(np.searchsorted(edges, cuts.below, side="right") - 1, 0, len(edges) - 2)
    start, width = edges[part], edges[part + 1] - edges[part]
    share = np.divide(cuts.below - start, width, out=np.zeros_like(width), where=width > 0)
    gain: Floats = width * _entropy(share) / cuts.cost
    gain[others] = -1.0
    return gain
