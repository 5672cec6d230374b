"""Which places to probe next: those that tell most about the first bad place for the seconds they cost.

Values only, like the belief they are chosen for. A price is the seconds to obtain a place's toolchain and to compile with
it, infinity where it cannot be had. A probe at a place cuts the suspects in two, so places are called cuts here.

One at a time, and with verdicts taken at their word, the cut is the root of the search tree with the least expected
seconds. Several at once, or with noise, they are those that tell most for each second of a round, which lasts as long
as its dearest probe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from triage.bisect.belief import Belief, Floats
from triage.model.outcome import Verdict

Indices = NDArray[np.int64]

_TREE_CUTS = 127  # cuts a search tree is built over; its time grows with the cube
_BATCH_CUTS = 255  # cuts a batch is picked from
_PRICE_LEVELS = 8  # different dearest prices tried for a round
_SWEEPS = 8  # times each cut of a batch is moved to its best place
_SPARE = 1  # probes that a prior may cost beyond what halving needs
_BASE = (0.05, 1.0)  # weight of untestable, of all probes, before any: 5 % of places say nothing
_LEAST_PRICE = 1e-9  # seconds; what is free is taken first, and no division by 0 comes of it


def next_probes(
    belief: Belief, prices: ArrayLike | None = None, jobs: int = 1, *, untestable: ArrayLike | None = None
) -> tuple[int, ...]:
    """Up to `jobs` distinct places to probe at once, oldest first; empty when no probe can tell anything more.

    prices: shape (N,), seconds, non-negative, infinite for places that cannot be probed; all alike when None.
    untestable: shape (N,), the chance that a place turns out to say nothing, 1 if it is known to; when None it is learnt
    from the belief. Places that were skipped are not chosen again.

    With equal prices, exact verdicts and one job, at most ceil(log2(suspects)) + 1 testable places are asked, whatever
    the prior; without a prior, ceil(log2(suspects)).

    Raises:
        ValueError: an array has another shape, or there is no job.
    """
    if jobs < 1:
        raise ValueError(f"at least one job is needed: {jobs}")
    cuts = _open_cuts(belief, prices, untestable)
    if not len(cuts.at):
        return ()
    if jobs == 1 and belief.noise.exact:
        return (_root(cuts.thinned(_TREE_CUTS, _room(belief, cuts)), _room(belief, cuts)),)
    if jobs == 1:
        rate = _bits(belief, cuts) / cuts.prices
        return (int(cuts.at[_first_best(rate)]),)
    return _batch(cuts.thinned(max(_BATCH_CUTS, 4 * jobs)), jobs)


def untestable_odds(belief: Belief) -> Floats:
    """Shape (N,): the chance that probing a place tells nothing, learnt from the places probed so far.

    Broken revisions come in runs of unknown length: a place resembles those probed near it, a place twice as far half as
    much.
    """
    skipped, told = sorted(belief.skipped), list(belief.counts)
    untestable, probed = np.full(belief.places, _BASE[0]), np.full(belief.places, _BASE[1])
    here = np.arange(belief.places)
    for index in skipped + told:
        near = 1 / (1 + np.abs(here - index) / 2)
        probed += near
        if index in belief.skipped:
            untestable += near
    odds: Floats = untestable / probed
    odds[told] = 0.0
    odds[skipped] = 1.0
    return odds


def information(belief: Belief, untestable: ArrayLike | None = None) -> Floats:
    """Shape (N,): the bits that one probe of each place is expected to tell; 0 where it cannot tell anything."""
    cuts = _open_cuts(belief, None, untestable)
    bits = np.zeros(belief.places)
    bits[cuts.at] = _bits(belief, cuts)
    return bits


@dataclass(frozen=True, slots=True)
class _Cuts:
    """Places that can be probed and would tell something, oldest first; all arrays have shape (C,).

    below: probability that the first bad place is at or before the cut. prices: seconds, positive. testable: chance that
    the probe tells anything, positive.
    """

    at: Indices
    below: Floats
    prices: Floats
    testable: Floats

    def only(self, chosen: NDArray[np.bool_] | Indices) -> _Cuts:
        return _Cuts(self.at[chosen], self.below[chosen], self.prices[chosen], self.testable[chosen])

    @property
    def dear(self) -> Floats:
        """Seconds that an answer costs about there, places that say nothing included."""
        answer: Floats = self.prices / self.testable
        return answer

    def thinned(self, count: int, room: tuple[int, int] | None = None) -> _Cuts:
        """At most `count` of them: of those between equal steps of probability, the one whose answer is cheapest.
        `room`: positions that are the only ones to be considered, first and last."""
        if len(self.at) <= count:
            return self
        step = np.minimum((self.below * count).astype(np.int64), count - 1)
        if room is not None:
            # Where the next cut may lie is thinned less than the rest: half of the count is kept for it.
            inside = np.zeros(len(self.at), dtype=np.bool_)
            inside[room[0] : room[1] + 1] = True
            first, last = self.below[room[0]], self.below[room[1]]
            fine = ((self.below - first) / max(last - first, 1e-300) * (count // 2)).astype(np.int64)
            step = np.where(inside, np.minimum(fine, count // 2 - 1), count + step // 2)
        middle = np.abs(self.below * count - np.floor(self.below * count) - 0.5)
        order = np.lexsort((self.at, middle, self.dear, step))
        _, firsts = np.unique(step[order], return_index=True)
        return self.only(np.sort(order[firsts]))


def _open_cuts(belief: Belief, prices: ArrayLike | None, untestable: ArrayLike | None) -> _Cuts:
    cost = np.ones(belief.places) if prices is None else np.asarray(prices, dtype=np.float64)
    odds = untestable_odds(belief) if untestable is None else np.asarray(untestable, dtype=np.float64)
    if cost.shape != (belief.places,) or odds.shape != (belief.places,):
        raise ValueError(f"prices and chances need one entry for each of {belief.places} places")
    if not (cost >= 0).all() or not ((odds >= 0) & (odds <= 1)).all():
        raise ValueError("prices must not be negative, and chances lie in [0, 1]")
    below = np.cumsum(belief.probabilities)
    can = np.isfinite(cost) & (odds < 1)
    can[[0, belief.places - 1, *belief.skipped]] = False
    if belief.noise.exact:
        low, high = belief.bounds
        can[: low + 1] = can[high:] = False
        can[list(belief.contradictory)] = False
    at = np.flatnonzero(can)
    return _Cuts(at, below[at], np.maximum(cost[at], _LEAST_PRICE), 1 - odds[at])


def _bits(belief: Belief, cuts: _Cuts) -> Floats:
    """What one probe of each cut is expected to tell, with the noise as the evidence has it."""
    noise = belief.learnt
    before = np.clip(1 - cuts.below, 0, 1)
    bad = cuts.below * (1 - noise.false_good) + before * noise.false_bad
    told = _entropy(bad) - cuts.below * _entropy(noise.false_good) - before * _entropy(noise.false_bad)
    bits: Floats = cuts.testable * np.maximum(told, 0.0)
    return bits


def _entropy(chance: ArrayLike) -> Floats:
    p = np.clip(np.asarray(chance, dtype=np.float64), 0.0, 1.0)
    return _surprise(p) + _surprise(1 - p)


def _surprise(p: Floats) -> Floats:
    """-p log2 p, in bits."""
    bits: Floats = -p * np.log2(np.where(p > 0, p, 1.0))
    return bits


def _first_best(score: Floats) -> int:
    """The first of the best, equal up to rounding: sums of probabilities differ in their last digits by machine."""
    return int(np.flatnonzero(score >= score.max() * (1 - 1e-9))[0])


def _room(belief: Belief, cuts: _Cuts) -> tuple[int, int] | None:
    """First and last cut that keep the promise of `next_probes`; None when prices differ, which makes it idle."""
    if cuts.prices.max() > 1.5 * cuts.prices.min():
        return None
    start = Belief(belief.prior, belief.evidence[: belief.recalled])
    low, high = start.bounds
    asked = sum(verdict is not Verdict.SKIP for _, verdict in belief.evidence[belief.recalled :])
    parts = len(cuts.at) + 1
    left = max(math.ceil(math.log2(max(high - low, 1))) + _SPARE - asked, math.ceil(math.log2(parts)))
    largest = 2 ** (left - 1)  # parts on either side that the probes left after this one can tell apart
    return max(0, parts - largest - 1), min(len(cuts.at) - 1, largest - 1)


def _root(cuts: _Cuts, room: tuple[int, int] | None) -> int:
    raise NotImplementedError
