"""The cheapest tree of questions that tells all parts of a line apart, by dynamic programming. Values only.

A part is one suspect, or several that are not looked at one by one; between two neighbouring parts lies a cut that can be
asked for a price. The cost of a run of parts is the price of the first cut asked times the probability of the run, plus
the costs of both sides of the cut.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def first_cut(chances: Floats, prices: Floats) -> int:
    """The cut asked first by the tree with the least expected price: one of 0 .. P - 2, the middle one of equals.

    chances: shape (P,), P at least 2, probabilities of the parts; prices: shape (P - 1,), positive.
    """
    edges = np.concatenate([[0.0], np.cumsum(chances)])
    costs = _Costs(len(chances))
    for length in range(2, len(chances) + 1):
        best = _ways(edges, prices, costs, length)
        costs.set(length, best.min(axis=1))
    return _middle(best[0], edges)


def first_cut_within(chances: Floats, prices: Floats, needs: Integers, depth: int) -> int:
    """The same with at most `depth` questions on every way down; more where no tree has so few, as few as can be.

    needs: shape (P,), how many questions must be left where a part is reached: what finding a suspect inside it takes,
    and 1 for a single suspect that is to be found one question sooner than others.
    """
    parts = len(chances)
    edges = np.concatenate([[0.0], np.cumsum(chances)])
    # Level by level: what all runs cost with `left` questions left, from what they cost with one less.
    left = int(needs.min())
    fewer = _Costs(parts, math.inf)
    fewer.set(1, np.where(needs <= left, 0.0, math.inf))
    while True:
        left += 1
        if left >= depth and np.isfinite(best := _ways(edges, prices, fewer, parts)).any():
            return _middle(best[0], edges)
        costs = _Costs(parts, math.inf)
        costs.set(1, np.where(needs <= left, 0.0, math.inf))
        for length in range(2, parts):
            costs.set(length, _ways(edges, prices, fewer, length).min(axis=1))
        fewer = costs


class _Costs:
    """Costs of runs of parts, by first part and length and by end and length: so that all ways to cut all runs of one
    length are plain slices.
    """

    def __init__(self, parts: int, cost: float = 0.0) -> None:
        self.parts = parts
        self.by_first, self.by_end = np.full((2, parts + 1, parts + 1), cost)

    def set(self, length: int, costs: Floats) -> None:
        """costs: shape (parts - length + 1,), by first part."""
        self.by_first[: self.parts - length + 1, length] = costs
        self.by_end[length:, length] = costs


def _ways(edges: Floats, prices: Floats, costs: _Costs, length: int) -> Floats:
    """Shape (runs, length - 1): the cost of each run of this length for each of its cuts asked first."""
    runs = costs.parts - length + 1
    held = edges[length:] - edges[:runs]
    cost: Floats = held[:, None] * sliding_window_view(prices, length - 1)
    cost += costs.by_first[:runs, 1:length]
    cost += costs.by_end[length:, length - 1 : 0 : -1]
    return cost


def _middle(costs: Floats, edges: Floats) -> int:
    """Of the cheapest cuts, equal up to rounding, the one nearest to half of the probability; the older of two."""
    least = np.flatnonzero(costs <= costs.min() * (1 + 1e-9))
    away = np.abs(edges[least + 1] - edges[-1] / 2)
    return int(least[np.flatnonzero(away <= away.min() + 1e-9)[0]])


def halving_depths(count: int) -> Integers:
    """Shape (count,): the questions that plain halving needs for each of `count` suspects, oldest first.

    It asks the middle, the older of two; all depths are log2(count) rounded down or up.
    """
    depths = np.zeros(count, dtype=np.int64)
    edges = np.array([0, count], dtype=np.int64)
    while len(edges) <= count:
        sizes = np.diff(edges)
        depths += np.repeat(sizes > 1, sizes)
        edges = np.unique(np.concatenate([edges, edges[:-1] + sizes // 2]))
    return depths
