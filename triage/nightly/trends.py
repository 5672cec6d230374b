"""Steps in times that were measured every night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from triage.nightly.history import TIMES, CaseHistory, NightsHistory

_NIGHTS = 5  # before and after a step, of which the medians are compared
_LEAST_RATIO = 1.1
_SURE = 4.5  # times the usual difference of these medians


@dataclass(frozen=True, slots=True)
class TimeStep:
    """A lasting change of a time."""

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


def time_steps(
    history: NightsHistory,
) -> list[tuple[TimeStep, str, CaseHistory]]:
    """Return all steps with the names of the times, the steepest first."""
    steps = [
        (step, name, case)
        for case in history.cases
        for name in TIMES
        for step in find_steps(case.times[name])
    ]
    return sorted(steps, key=lambda row: -max(row[0].ratio, 1 / row[0].ratio))


def find_steps(values: Mapping[int, float]) -> Iterator[TimeStep]:
    """Yield the steps in positive values by night, the largest first.

    A step is a change between the medians of neighbouring nights that is larger than
    the noise of the series makes likely.
    """
    nights = list(values)
    if len(nights) < 2 * _NIGHTS:
        return
    series = np.array([values[night] for night in nights])
    levels = np.median(sliding_window_view(series, _NIGHTS), axis=1)
    changes = np.abs(np.log(levels[_NIGHTS:] / levels[:-_NIGHTS]))
    noise = 1.4826 * float(np.median(changes))
    while changes.max() >= max(np.log(_LEAST_RATIO), _SURE * noise):
        start = int(np.argmax(changes))
        old, new = levels[start], levels[start + _NIGHTS]
        # the step is where the values on its left are nearer to the old level
        near = series[start : start + 2 * _NIGHTS]
        is_old = np.abs(near - old) < np.abs(near - new)
        at = start + 1 + int(np.argmax(np.cumsum(np.where(is_old, 1, -1))))
        yield TimeStep(nights[at - 1], nights[at], float(old), float(new))
        changes[max(0, start - _NIGHTS) : start + _NIGHTS + 1] = 0
