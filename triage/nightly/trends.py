"""Steps in values that were measured every night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from triage.nightly.history import METRICS, CaseHistory, ChartedMetric, NightsHistory

_NIGHTS = 5  # before and after a step, of which the medians are compared
_SURE = 4.5  # times the usual difference of these medians


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


def metric_steps(
    history: NightsHistory,
) -> list[tuple[MetricStep, ChartedMetric, CaseHistory]]:
    """Return all steps, the steepest first."""
    steps = [
        (step, metric, case)
        for case in history.cases
        for metric in METRICS
        for step in find_steps(case.metrics[metric.name], metric.least_ratio)
    ]
    return sorted(steps, key=lambda row: -max(row[0].ratio, 1 / row[0].ratio))


def find_steps(values: Mapping[int, float], least_ratio: float) -> Iterator[MetricStep]:
    """Yield the steps in positive values by night, the largest first.

    A step is a change between the medians of neighbouring nights that is larger than
    the noise of the series makes likely.
    """
    nights = [night for night, value in values.items() if value > 0]
    if len(nights) < 2 * _NIGHTS:
        return
    series = np.array([values[night] for night in nights])
    levels = np.median(sliding_window_view(series, _NIGHTS), axis=1)
    changes = np.abs(np.log(levels[_NIGHTS:] / levels[:-_NIGHTS]))
    noise = 1.4826 * float(np.median(changes))
    while changes.max() >= max(np.log(least_ratio), _SURE * noise):
        start = int(np.argmax(changes))
        old, new = levels[start], levels[start + _NIGHTS]
        # the step is where the values on its left are nearer to the old level
        near = series[start : start + 2 * _NIGHTS]
        is_old = np.abs(near - old) < np.abs(near - new)
        at = start + 1 + int(np.argmax(np.cumsum(np.where(is_old, 1, -1))))
        yield MetricStep(nights[at - 1], nights[at], float(old), float(new))
        changes[max(0, start - _NIGHTS) : start + _NIGHTS + 1] = 0
