"""Steps in values that were measured every night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triage.nightly.history import CaseHistory, NightsHistory

_SHORTEST = 5  # nights between two steps, and least number of nights after one
_PENALTY = 12.0  # times the logarithm of the number of nights, see docs/research.md
_WINDOW = 7  # nights whose median an outlier is compared with
_OUTLIER = 3.0  # standard deviations


@dataclass(frozen=True)
class ChartedMetric:
    """A metric that pages draw as a line."""

    name: str
    title: str
    unit: str
    least_ratio: float
    """The smallest relative change that is marked as a step."""
    least_difference: float = 0.0
    """The smallest change that is marked as a step, in the unit of the metric."""


METRICS = (
    ChartedMetric("run_seconds", "Run time", "s", 0.05),
    ChartedMetric("cpu_seconds", "Compile time (CPU)", "s", 0.10, 0.1),
    ChartedMetric("dispatches", "Dispatches", "", 0.01),
    ChartedMetric("artifact_bytes", "Size", "bytes", 0.05),
)


@dataclass(frozen=True, slots=True)
class MetricStep:
    """A lasting change of a metric."""

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


CaseSteps = Mapping[CaseHistory, Mapping[ChartedMetric, Sequence[MetricStep]]]


def metric_steps(history: NightsHistory) -> CaseSteps:
    """Return the steps of each case that has some, without those that an edit of its
    input made.
    """
    found: dict[CaseHistory, dict[ChartedMetric, list[MetricStep]]] = {}
    for case in history.cases:
        edits = {
            new.first.night
            for old, new in zip(case.runs, case.runs[1:], strict=False)
            if new.first.is_edited_since(old.last)
        }
        for metric in METRICS:
            values = case.metrics.get(metric.name, {})
            for step in find_steps(values, metric.least_ratio, metric.least_difference):
                if edits.isdisjoint(range(step.before + 1, step.at + 1)):
                    found.setdefault(case, {}).setdefault(metric, []).append(step)
    return found


def find_steps(
    values: Mapping[int, float], least_ratio: float, least_difference: float = 0.0
) -> Iterator[MetricStep]:
    """Yield the steps in positive values by night.

    A step counts if the value changes by the part `least_ratio` and by the amount
    `least_difference` at least.
    """
    nights = [night for night, value in values.items() if value > 0]
    series = np.array([values[night] for night in nights])
    if len(series) < 2 * _SHORTEST:
        return
    bounds = _bounds_of(np.log(series))
    for start, bound, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
        old = float(np.median(series[start:bound]))
        last = float(series[end - 1])
        # a part has a least length, so that the bound of a step in the last nights is
        # too early: the first value that is nearer to the last one is meant
        nearer = abs(series[bound:end] - last) <= abs(series[bound:end] - old)
        at = bound + int(np.argmax(nearer))
        new = float(np.median(series[at:end]))
        ratio = max(new / old, old / new)
        is_large = ratio >= 1 + least_ratio and abs(new - old) >= least_difference
        if is_large and end - at >= _SHORTEST:  # fewer values may be outliers
            yield MetricStep(nights[at - 1], nights[at], old, new)


def _bounds_of(logs: NDArray[Any]) -> list[int]:
    """Return the bounds of the parts of a series with equal levels."""
    changes = np.diff(logs)
    # Steps are rare among the differences of neighbours, so that their median deviation
    # measures the noise alone.
    deviation = float(np.median(np.abs(changes - np.median(changes))))
    noise = max(1.4826 * deviation / 2**0.5, 1e-4)
    near = np.lib.stride_tricks.sliding_window_view(
        np.pad(logs, _WINDOW // 2, mode="edge"), _WINDOW
    )
    middle = np.median(near, axis=1)
    clipped = np.clip(logs, middle - _OUTLIER * noise, middle + _OUTLIER * noise)
    return level_bounds(clipped / noise, _PENALTY * float(np.log(len(logs))))


def level_bounds(values: NDArray[Any], penalty: float) -> list[int]:
    """Return the bounds of the parts of a series, 0 and its length included. A part is
    divided where that lowers the squared deviations from the means most, as long as it
    lowers them by more than the penalty.

    >>> level_bounds(np.array([0.0] * 6 + [9.0] * 5), 10.0)
    [0, 6, 11]
    """
    count = len(values)
    if count >= 2 * _SHORTEST:
        left = np.arange(_SHORTEST, count - _SHORTEST + 1)
        sums = np.cumsum(values)[left - 1]
        mean_left, mean_right = sums / left, (values.sum() - sums) / (count - left)
        gains = left * (count - left) / count * (mean_left - mean_right) ** 2
        if gains.max() > penalty:
            bound = int(left[np.argmax(gains)])
            first = level_bounds(values[:bound], penalty)
            second = level_bounds(values[bound:], penalty)
            return [*first, *(bound + inner for inner in second[1:])]
    return [0, count]
