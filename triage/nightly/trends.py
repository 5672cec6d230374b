"""Find steps in values that were measured every night. `ruptures` searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
_SHORTEST = 5  # nights between two steps, and least number of nights after one
_PENALTY = 12.0  # times the logarithm of the number of nights, see docs/research.md
_WINDOW = 7  # nights whose median an outlier is compared with
_OUTLIER = 3.0  # standard deviations


@dataclass(frozen=True, slots=True)
class MetricStep:
    """A lasting change. row: of the matrix; before, at: the nights on both sides; old, new: medians."""

    row: int
    before: int
    at: int
    old: float
    new: float

    @property
    def ratio(self) -> float:
        return self.new / self.old


def find_steps(values: Values, least: float, least_by: float = 0.0) -> Iterator[MetricStep]:
    """Yield the steps in each row of a matrix whose columns are nights; NaN stands for no value.

    least: the smallest relative change that counts; least_by: the smallest absolute one.
    """
    for row, of_case in enumerate(values):
        measured = np.flatnonzero(of_case > 0)
        if len(measured) < 2 * _SHORTEST:
            continue
        series = of_case[measured].astype(np.float64)
        for start, found, end in _segments(series, least):
            # A segment has a least length, so that a step of the last nights is found too early: date it by the values.
            old, new = float(np.median(series[start:found])), float(np.median(series[end - 1 : end]))
            at = found
            while at < end and abs(series[at] - old) < abs(series[at] - new):
                at += 1
            if end - at < _SHORTEST:
                continue  # too new to be told from outliers
            new = float(np.median(series[at:end]))
            if max(new / old, old / new) >= 1 + least and abs(new - old) >= least_by:
                yield MetricStep(row, int(measured[at - 1]), int(measured[at]), old, new)


def _segments(series: Values, least: float) -> Iterator[tuple[int, int, int]]:
    """Yield the bounds of each pair of neighbouring segments."""
    logs = np.log(series)
    changes = np.diff(logs)
    # Steps are rare among the differences of neighbours, so that their median deviation measures the noise alone.
    noise = max(1.4826 * float(np.median(np.abs(changes - np.median(changes)))) / 2**0.5, 1e-4)
    near = np.lib.stride_tricks.sliding_window_view(np.pad(logs, _WINDOW // 2, mode="edge"), _WINDOW)
    middle = np.median(near, axis=1)
    logs = np.clip(logs, middle - _OUTLIER * noise, middle + _OUTLIER * noise)
    means = np.convolve(logs, np.full(_SHORTEST, 1 / _SHORTEST), mode="valid")
    if means.max() - means.min() < np.log1p(least) / 2:
        return  # no two segments can differ by so much
    import ruptures

    search = ruptures.KernelCPD(kernel="linear", min_size=_SHORTEST).fit((logs / noise)[:, None])
    bounds = [0, *search.predict(pen=_PENALTY * float(np.log(len(logs))))]
    yield from zip(bounds, bounds[1:], bounds[2:], strict=False)
