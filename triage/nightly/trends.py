"""Steps in values that were measured every night."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from triage.nightly.history import Matrix

_SHORTEST = 5  # nights between two steps, and least number of nights after one
_PENALTY = 12.0  # times the logarithm of the number of nights, see docs/research.md
_WINDOW = 7  # nights whose median an outlier is compared with
_OUTLIER = 3.0  # standard deviations


@dataclass(frozen=True, slots=True)
class MetricStep:
    """A lasting change of a metric."""

    row: int
    before: int
    """The last night before it."""
    at: int
    """The first night after it."""
    old: float
    """The median before it."""
    new: float

    @property
    def ratio(self) -> float:
        return self.new / self.old


def find_steps(
    values: Matrix, least_ratio: float, least_difference: float = 0.0
) -> Iterator[MetricStep]:
    """Yield the steps in each row of a matrix whose columns are nights; NaN stands for
    no value.

    A step counts if the value changes by the part `least_ratio` and by the amount
    `least_difference` at least.
    """
    for row, of_case in enumerate(values):
        nights = np.flatnonzero(of_case > 0)
        if len(nights) < 2 * _SHORTEST:
            continue
        series = of_case[nights].astype(np.float64)
        bounds = _bounds_of(series, least_ratio)
        for start, bound, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
            old = float(np.median(series[start:bound]))
            at = _first_value_after(series, bound, end, old)
            if end - at < _SHORTEST:
                continue  # too few values yet: it may be an outlier
            new = float(np.median(series[at:end]))
            ratio = max(new / old, old / new)
            if ratio >= 1 + least_ratio and abs(new - old) >= least_difference:
                before, after = int(nights[at - 1]), int(nights[at])
                yield MetricStep(row, before, after, old, new)


def _first_value_after(series: Matrix, bound: int, end: int, old: float) -> int:
    """Return the index of the first value that is nearer to the last one than to the
    old level.

    A segment has a least length, so that the bound of a step in the last nights is too
    early.
    """
    last = float(series[end - 1])
    at = bound
    while at < end and abs(series[at] - old) < abs(series[at] - last):
        at += 1
    return at


def _bounds_of(series: Matrix, least_ratio: float) -> list[int]:
    """Return the bounds of the segments of a series with equal levels; none where no
    two segments can differ by the ratio.
    """
    logs = np.log(series)
    changes = np.diff(logs)
    # Steps are rare among the differences of neighbours, so that their median deviation
    # measures the noise alone.
    deviation = float(np.median(np.abs(changes - np.median(changes))))
    noise = max(1.4826 * deviation / 2**0.5, 1e-4)
    near = np.lib.stride_tricks.sliding_window_view(
        np.pad(logs, _WINDOW // 2, mode="edge"), _WINDOW
    )
    middle = np.median(near, axis=1)
    logs = np.clip(logs, middle - _OUTLIER * noise, middle + _OUTLIER * noise)
    means = np.convolve(logs, np.full(_SHORTEST, 1 / _SHORTEST), mode="valid")
    if means.max() - means.min() < np.log1p(least_ratio) / 2:
        return []
    return segment_bounds(logs / noise, _PENALTY * float(np.log(len(logs))))


@lru_cache(maxsize=4)  # most cases ran in as many nights
def _lengths(count: int) -> Matrix:
    """Return the lengths of the segments between so many bounds; infinity for those
    that are too short.
    """
    bounds = np.arange(count)
    lengths = np.abs(np.subtract.outer(bounds, bounds)).astype(np.float64)
    lengths[lengths < _SHORTEST] = np.inf
    return lengths


def segment_bounds(values: Matrix, penalty: float) -> list[int]:
    """Return the bounds of the segments, 0 and the number of values included, that have
    the least squared deviation from their means, plus a penalty for each segment.

    >>> segment_bounds(np.array([0.0] * 6 + [9.0] * 5), 10.0)
    [0, 6, 11]
    """
    values = values - values.mean()  # differences of large squares are not exact
    sums = np.concatenate(([0.0], np.cumsum(values)))
    # A division into k segments pays only if it gains more than k - 1 penalties, and
    # then one segment alone gains more than half a penalty.
    gains = np.subtract.outer(sums, sums)
    gains *= gains
    gains /= _lengths(len(sums))
    if gains.max() < penalty / 2:
        return [0, len(values)]
    squares = np.concatenate(([0.0], np.cumsum(values**2)))
    # of the values before each index: the least cost, and where the last segment begins
    best, begins = np.full(len(sums), np.inf), np.zeros(len(sums), int)
    best[0] = 0.0
    for end in range(_SHORTEST, len(sums)):
        start = np.arange(end - _SHORTEST + 1)
        deviation = squares[end] - squares[start]
        deviation -= (sums[end] - sums[start]) ** 2 / (end - start)
        costs = best[start] + deviation
        begins[end] = np.argmin(costs)
        best[end] = costs[begins[end]] + penalty
    bounds = [len(values)]
    while bounds[-1] > 0:
        bounds.append(int(begins[bounds[-1]]))
    return bounds[::-1]
