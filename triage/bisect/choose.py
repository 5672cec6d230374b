"""Choose the candidates to probe next. Pure values: no I/O, no clock, no callbacks.

A probe at a candidate cuts the suspects in two: those up to it and those after it. The best cuts give most information for the
seconds that they cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.belief import Belief, Floats

_SWEEPS = 4  # how often each cut of a batch is moved to its best position
_WORTH_MOVING = 1.001  # factor that a cut's information must grow by to be moved
_UNTESTABLE, _PROBED = 0.05, 1.0  # pseudo-counts: before any probe, 5 % of candidates are taken as untestable
_LEAST_SECONDS = 1e-9  # avoids a division by 0


def next_probes(
    belief: Belief, seconds: ArrayLike | None = None, jobs: int = 1, *, untestable: ArrayLike | None = None
) -> tuple[int, ...]:
    """Choose up to `jobs` distinct candidates to probe at once, oldest first; empty when no probe can help any more.

    Candidates that were skipped are not chosen again.

    Args:
        belief: The suspects and their probabilities.
        seconds: Shape (N,), the cost of a probe, infinite where a candidate cannot be probed; all equal when None.
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
    """Candidates whose probe can help, oldest first; all arrays have shape (C,)."""

    indices: NDArray[np.int64]
    below: Floats
    """Probability that the first new candidate is at or before the cut."""
    cost: Floats
    """Expected seconds for one result about there."""


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
    return _Cuts(indices, np.cumsum(belief.probabilities)[indices], needed / (1 - odds[indices]))


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
