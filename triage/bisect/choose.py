"""Choose the candidates to probe next. Pure values: no I/O, no clock, no callbacks.

A probe at a candidate cuts the suspects in two: those up to it and those after it. The best cuts give most information for the
seconds that they cost. A guess of the prior may mislead, so a bound holds it near halving.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.belief import Belief, Floats

_SPARE = 2  # probes that a wrong guess about the culprit may cost beyond what halving needs at worst
_SWEEPS = 4  # how often each cut of a batch is moved to its best position
_WORTH_MOVING = 1.001  # factor that a cut's information must grow by to be moved
_EQUAL_COSTS = 1.5  # costs within this factor count as equal
_UNTESTABLE, _PROBED = 0.05, 1.0  # pseudo-counts: before any probe, 5 % of candidates are taken as untestable
_LEAST_SECONDS = 1e-9  # avoids a division by 0


def next_probes(
    belief: Belief, seconds: ArrayLike | None = None, jobs: int = 1, *, untestable: ArrayLike | None = None
) -> tuple[int, ...]:
    """Choose up to `jobs` distinct candidates to probe at once, oldest first; empty when no probe can help any more.

    Candidates that were skipped are not chosen again. With exact verdicts, every candidate testable and one job, a search
    whose probes cost the same needs at most two probes more than halving does for the worst suspect, whatever the prior.
    With cheap candidates and dear ones, this holds for the dear probes that follow the cheap ones.

    Args:
        belief: The suspects and their probabilities.
        seconds: Shape (N,), the cost of a probe, infinite where a candidate cannot be probed; all equal when None. Of
            candidates in the evidence, what their probe cost.
        jobs: Probes that run at the same time.
        untestable: Shape (N,), the chance that a candidate turns out untestable; estimated from the belief when None.

    Raises:
        ValueError: An array has another shape or values out of range, or `jobs` is less than 1.
    """
    if jobs < 1:
        raise ValueError(f"at least one job is needed: {jobs}")
    cost = np.ones(belief.size) if seconds is None else np.asarray(seconds, dtype=np.float64)
    cuts = _open_cuts(belief, cost, untestable)
    if len(cuts.indices) <= jobs:
        return tuple(int(index) for index in cuts.indices)
    if jobs == 1 and belief.noise.exact:
        cuts = _bounded(belief, cuts, cost)
    return _even_cuts(cuts, jobs)


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


@dataclass(frozen=True, slots=True)
class _Cuts:
    """Candidates whose probe can help, oldest first; all arrays have shape (C,).

    below: probability that the first new candidate is at or before the cut. cost: expected seconds for one result about there.
    """

    indices: NDArray[np.int64]
    below: Floats
    seconds: Floats
    cost: Floats


def _open_cuts(belief: Belief, seconds: Floats, untestable: ArrayLike | None) -> _Cuts:
    odds = untestable_odds(belief) if untestable is None else np.asarray(untestable, dtype=np.float64)
    if seconds.shape != (belief.size,) or odds.shape != (belief.size,):
        raise ValueError(f"seconds and odds need one entry for each of {belief.size} candidates")
    if not (seconds >= 0).all() or not ((odds >= 0) & (odds <= 1)).all():
        raise ValueError("seconds must not be negative, and odds must lie in [0, 1]")
    is_open = np.isfinite(seconds) & (odds < 1)
    is_open[[0, belief.size - 1, *belief.skipped]] = False
    if belief.noise.exact:
        low, high = belief.bounds
        is_open[: low + 1] = is_open[high:] = False
        is_open[list(belief.contradictory)] = False
    indices = np.flatnonzero(is_open)
    needed = np.maximum(seconds[indices], _LEAST_SECONDS)
    return _Cuts(indices, np.cumsum(belief.probabilities)[indices], needed, needed / (1 - odds[indices]))


def _bounded(belief: Belief, cuts: _Cuts, cost: Floats) -> _Cuts:
    """Keep the cuts that leave neither side more suspects than the remaining probes can tell apart.

    A wrong prior would otherwise cost a probe for each halving of a small probability. Probes that were much cheaper are a
    search of their own that came before: what it left is what halving begins with.
    """
    if cuts.seconds.max() > _EQUAL_COSTS * cuts.seconds.min():
        return cuts
    is_dear = {index: bool(cost[index] * _EQUAL_COSTS >= cuts.seconds.min()) for index, _ in belief.evidence}
    low, high = replace(belief, evidence=tuple(entry for entry in belief.evidence if not is_dear[entry[0]])).bounds
    asked = sum(side is not None and is_dear[index] for index, side in belief.evidence)
    left = math.ceil(math.log2(high - low)) + _SPARE - asked
    older = np.arange(1, len(cuts.indices) + 1)
    larger = np.maximum(older, len(older) + 1 - older)
    kept = larger <= max(2.0 ** (left - 1), larger.min())
    return _Cuts(cuts.indices[kept], cuts.below[kept], cuts.seconds[kept], cuts.cost[kept])


def _even_cuts(cuts: _Cuts, jobs: int) -> tuple[int, ...]:
    """Choose `jobs` cuts that divide the probability evenly: each is moved to where it helps most besides the others."""
    chosen: list[int] = []
    for part in range(1, min(jobs, len(cuts.indices)) + 1):
        distance = np.abs(cuts.below - part / (jobs + 1))
        distance[chosen] = math.inf
        chosen.append(int(np.argmin(distance)))
    for _ in range(_SWEEPS):
        before = list(chosen)
        for number in range(len(chosen)):
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
    p = np.clip(share, 0.0, 1.0)  # rounding may leave a sum outside
    bits = -p * np.log2(np.where(p > 0, p, 1.0)) - (1 - p) * np.log2(np.where(p < 1, 1 - p, 1.0))
    gain: Floats = width * bits / cuts.cost
    gain[others] = -1.0
    return gain
