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
from numpy.typing import ArrayLike, NDArray

from triage.bisect.belief import Belief, Floats
from triage.bisect.choose_tree import first_cut, first_cut_within, halving_depths
from triage.model.outcome import Verdict

Indices = NDArray[np.int64]

_TREE_CUTS = 79  # cuts a search tree is built over; its time grows with their cube
_MANY_CUTS = 2000  # beyond, half as many do: the first cut need not be so fine, and the tree is deeper
_BATCH_CUTS = 255  # cuts a batch is picked from
_PRICE_LEVELS = 5  # different dearest prices tried for a round
_WORTH_MOVING = 1e-3  # what a cut of a batch must gain to be moved
_SWEEPS = 4  # times each cut of a batch is moved to its best place
_SPARE = 1  # probes that a prior may cost beyond what halving needs
_ALIKE = 1.5  # prices within this factor count as equal
_BASE = (0.05, 1.0)  # weight of untestable, of all probes, before any: 5 % of places say nothing
_LEAST_PRICE = 1e-9  # seconds; what is free is taken first, and no division by 0 comes of it


def next_probes(
    belief: Belief, prices: ArrayLike | None = None, jobs: int = 1, *, untestable: ArrayLike | None = None
) -> tuple[int, ...]:
    """Up to `jobs` distinct places to probe at once, oldest first; empty when no probe can tell anything more.

    prices: shape (N,), seconds, non-negative, infinite for places that cannot be probed; all alike when None.
    untestable: shape (N,), the chance that a place turns out to say nothing, 1 if it is known to; when None it is learnt
    from the belief. Places that were skipped are not chosen again.

    With equal prices, exact verdicts, every place testable and one job, a search asks for no suspect more than one place
    beyond what plain halving would, whatever the prior; of more than 80 suspects, which are first taken together, rarely
    two.

    Raises:
        ValueError: an array has another shape, or there is no job.
    """
    if jobs < 1:
        raise ValueError(f"at least one job is needed: {jobs}")
    cuts = _open_cuts(belief, prices, untestable)
    if not len(cuts.at):
        return ()
    if jobs == 1 and belief.noise.exact:
        return (_root(belief, cuts),)
    if jobs == 1:
        return (int(cuts.at[_first_best(_bits(belief, cuts) / cuts.prices)]),)
    return _batch(cuts.thinned(max(_BATCH_CUTS, 4 * jobs)), jobs)


def untestable_odds(belief: Belief) -> Floats:
    """Shape (N,): the chance that probing a place tells nothing, learnt from the places probed so far.

    Broken revisions come in runs of unknown length: a place resembles those probed near it, a place twice as far half as
    much. As long as nothing was skipped all are alike.
    """
    skipped, told = sorted(belief.skipped), list(belief.counts)
    untestable, probed = np.full(belief.places, _BASE[0]), np.full(belief.places, _BASE[1])
    here = np.arange(belief.places)
    for index in skipped + told if skipped else ():
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

    def thinned(self, count: int) -> _Cuts:
        """At most `count` of them: in each of as many equal steps of probability the one whose answer is cheapest."""
        if len(self.at) <= count:
            return self
        scaled = self.below * count
        step = np.minimum(scaled.astype(np.int64), count - 1)
        order = np.lexsort((self.at, np.abs(scaled - step - 0.5), self.dear, step))
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
    bits: Floats = -p * np.log2(np.where(p > 0, p, 1.0))  # rounding may leave a difference of sums below 0
    return bits


def _first_best(score: Floats) -> int:
    """The first of the best, equal up to rounding: sums of probabilities differ in their last digits by machine."""
    return int(np.flatnonzero(score >= score.max() - 1e-9 * abs(score.max()))[0])


def _root(belief: Belief, cuts: _Cuts) -> int:
    """The place that the cheapest search tree asks first: least expected seconds until one suspect is left.

    With equal prices the tree keeps the promise of `next_probes`. A wrong prior could otherwise cost a probe for each
    halving of a small probability.
    """
    few = cuts.thinned(_TREE_CUTS if len(cuts.at) <= _MANY_CUTS else _TREE_CUTS // 2)
    chances = np.diff(np.concatenate([[0.0], few.below, [1.0]]))
    limits = _limits(belief, cuts, few)
    if limits is not None:
        needs, left = limits
        return int(few.at[first_cut_within(chances, few.dear, needs, left)])
    return int(few.at[first_cut(chances, few.dear)])


def _limits(belief: Belief, cuts: _Cuts, few: _Cuts) -> tuple[Indices, int] | None:
    """For each part between the few cuts how many probes must be left where it is reached, shape (C + 1,), and how many
    are left; None when nothing is promised: prices differ, so that not the number of probes matters.
    """
    first, last = belief.bounds
    if cuts.prices.max() > _ALIKE * cuts.prices.min():
        return None
    asked = sum(verdict is not Verdict.SKIP for _, verdict in belief.evidence)
    depths = halving_depths(belief.places - 1)
    deepest = int(depths.max())
    # A suspect that halving finds a probe sooner takes twice the room: it is to be reached with a probe to spare.
    shares = (deepest + 1 - depths)[first:last]
    begins = np.concatenate([[first], few.at]) - first
    inner = np.diff(np.concatenate([[-1], np.searchsorted(cuts.at, few.at), [len(cuts.at)]])) - 1
    room = np.ceil(np.log2(np.add.reduceat(shares, begins))).astype(np.int64)
    needs: Indices = np.where(inner == 0, np.maximum.reduceat(shares, begins) - 1, room)
    return needs, deepest + _SPARE - asked


def _batch(cuts: _Cuts, jobs: int) -> tuple[int, ...]:
    """Cuts whose answers together tell most for each second of the round."""
    levels = np.unique(cuts.prices)
    if len(levels) > _PRICE_LEVELS:
        levels = np.unique(np.quantile(levels, np.linspace(0, 1, _PRICE_LEVELS), method="higher"))
    best: tuple[float, tuple[int, ...]] = (-math.inf, ())
    for dearest in levels:
        affordable = cuts.only(cuts.prices <= dearest)
        chosen = _spread(affordable, jobs)
        rate = _joint_bits(affordable, chosen) / float(dearest)
        if rate > best[0] * (1 + 1e-9):
            best = (rate, tuple(int(affordable.at[cut]) for cut in chosen))
    return best[1]


def _spread(cuts: _Cuts, jobs: int) -> list[int]:
    """Positions of up to `jobs` cuts that part the probability as evenly as may be: each in turn is moved to where it
    tells most beside the others, until none moves.
    """
    if len(cuts.at) <= jobs:
        return list(range(len(cuts.at)))
    chosen: list[int] = []
    for part in range(1, jobs + 1):
        ideal = np.abs(cuts.below - part / (jobs + 1))
        ideal[chosen] = math.inf
        chosen.append(int(np.argmin(ideal)))
    chosen.sort()
    for _ in range(max(1, _SWEEPS * 8 // max(8, jobs))):
        moved = False
        for one in list(chosen):
            others = [cut for cut in chosen if cut != one]
            gain = _added_bits(cuts, others)
            better = _first_best(gain)
            if gain[better] > gain[one] * (1 + _WORTH_MOVING):
                chosen = sorted([*others, better])
                moved = True
        if not moved:
            break
    return chosen


def _neighbours(cuts: _Cuts, chosen: list[int], least: float) -> list[tuple[int, int, float]]:
    """Pairs of cuts with the chance, at least `least`, that both are answered and none between them is; the ends of the
    line are -1 and C.
    """
    pairs = []
    ends = [-1, *chosen, len(cuts.at)]
    for left, first in enumerate(ends[:-1]):
        chance = float(cuts.testable[first]) if left else 1.0
        for second in ends[left + 1 :]:
            answered = float(cuts.testable[second]) if second < len(cuts.at) else 1.0
            if chance * answered >= least:
                pairs.append((first, second, chance * answered))
            chance *= 1 - answered
            if chance < least:
                break
    return pairs


def _joint_bits(cuts: _Cuts, chosen: list[int]) -> float:
    """What the answers of all of them together are expected to tell."""
    edges = np.concatenate([cuts.below, [1.0, 0.0]])  # the end of the line, and its beginning as index -1
    pairs = _neighbours(cuts, chosen, 1e-6)
    held = np.array([edges[second] - edges[first] for first, second, _ in pairs])
    return float(_surprise(np.maximum(held, 0.0)) @ np.array([chance for *_, chance in pairs]))


def _added_bits(cuts: _Cuts, others: list[int]) -> Floats:
    """What each cut would add to the answers of `others`, shape (C,)."""
    pairs = _neighbours(cuts, others, 0.02)
    firsts = np.array([first for first, *_ in pairs])[:, None]
    seconds = np.array([second for _, second, _ in pairs])[:, None]
    edges = np.concatenate([cuts.below, [1.0, 0.0]])  # the end of the line, and its beginning as index -1
    start, end = edges[firsts], edges[seconds]
    here = np.arange(len(cuts.at))
    inside = (here > firsts) & (here < seconds)
    halves = _surprise(np.where(inside, cuts.below - start, 0.0)) + _surprise(np.where(inside, end - cuts.below, 0.0))
    gain = np.array([chance for *_, chance in pairs]) @ (halves - np.where(inside, _surprise(end - start), 0.0))
    gain[others] = 0.0
    added: Floats = gain * cuts.testable
    return added
