"""What lasts over the nights: the life of each failure, and steps in values that were
measured every night.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from triage.investigate.result import ClusterKey
from triage.model.outcome import Failure, Status
from triage.nightly.history import Matrix, NightsHistory, StateRun, Track

_SHORTEST = 5  # nights between two steps, and least number of nights after one
_PENALTY = 12.0  # times the logarithm of the number of nights, see docs/research.md
_WINDOW = 7  # nights whose median an outlier is compared with
_OUTLIER = 3.0  # standard deviations


@dataclass(frozen=True, slots=True)
class FailingRun:
    """Nights in which a case has a failure, with its results before and after."""

    row: int
    run: StateRun
    before: StateRun | None
    after: StateRun | None
    """Not set while the failure is the last result that is known."""


@dataclass(frozen=True)
class FailureLife:
    """All nights and cases of one signature in a track."""

    track: Track
    signature: str
    kind: Failure
    """The failure as it was last seen."""
    runs: tuple[FailingRun, ...]
    page: str
    """Name of its page."""

    @property
    def key(self) -> ClusterKey:
        return self.track.key_of(self.kind)

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(failing.row for failing in self.runs))

    @cached_property
    def open_runs(self) -> tuple[FailingRun, ...]:
        """Those of the cases that still fail so, as far as is known, and are not
        expected to; where all are expected, all.
        """
        last = [failing for failing in self.runs if failing.after is None]
        return tuple(
            [failing for failing in last if failing.run.status is Status.FAILED] or last
        )

    @property
    def state(self) -> str:
        """`open`, `known` where every open case fails as its recipe expects, or
        `gone`.
        """
        if not self.open_runs:
            return "gone"
        if self.open_runs[0].run.status is Status.FAILED:
            return "open"
        return "known"

    @property
    def first(self) -> FailingRun:
        return min(self.runs, key=lambda failing: failing.run.first)

    @property
    def current(self) -> FailingRun:
        """The run since which it is open; the first one where it is gone."""
        return min(self.open_runs or self.runs, key=lambda failing: failing.run.first)

    @property
    def last(self) -> int:
        return max(failing.run.last for failing in self.runs)

    @property
    def gone(self) -> int | None:
        """The first night without it, once it is gone."""
        if self.open_runs:
            return None
        return max(failing.after.first for failing in self.runs if failing.after)


def failure_lives(history: NightsHistory) -> tuple[FailureLife, ...]:
    """Return all failures: first the open ones, the newest of these first, then the
    known ones, then those that are gone.
    """
    found: dict[tuple[Track, str], list[FailingRun]] = {}
    for row, runs in enumerate(history.runs):
        tested: list[StateRun] = []
        for run in runs:
            if (
                tested
                and run.failed
                and tested[-1].failed
                and tested[-1].signature == run.signature
            ):
                # only its expectation changed
                tested[-1] = replace(run, first=tested[-1].first)
            elif run.status is not Status.UNTESTABLE:
                tested.append(run)
        for before, run, after in zip(
            [None, *tested], tested, [*tested[1:], None], strict=False
        ):
            if run.failed and run.signature:
                key = history.rows[row][0], history.signatures[run.signature]
                found.setdefault(key, []).append(FailingRun(row, run, before, after))
    pages: dict[ClusterKey, int] = {}
    lives = []
    for (track, signature), failing in sorted(found.items()):
        newest = max(failing, key=lambda each: each.run.last)
        kind = history.kind_of(newest.row, newest.run.last)
        assert kind
        shared = track.key_of(kind)
        number = pages[shared] = pages.get(shared, 0) + 1
        page = shared.id + (f"-{number}" if number > 1 else "")
        lives.append(FailureLife(track, signature, kind, tuple(failing), page))
    order = ["open", "known", "gone"]
    return tuple(
        sorted(
            lives,
            key=lambda life: (
                order.index(life.state),
                -life.current.run.first,
                -len(life.rows),
                life.signature,
            ),
        )
    )


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
        measured = np.flatnonzero(of_case > 0)
        if len(measured) < 2 * _SHORTEST:
            continue
        series = of_case[measured].astype(np.float64)
        for start, found, end in _segments(series, least_ratio):
            # A segment has a least length, so that a step of the last nights is found
            # too early: date it by the values.
            old, last = float(np.median(series[start:found])), float(series[end - 1])
            at = found
            while at < end and abs(series[at] - old) < abs(series[at] - last):
                at += 1
            if end - at < _SHORTEST:
                continue  # too few values yet: it may be an outlier
            new = float(np.median(series[at:end]))
            ratio = max(new / old, old / new)
            if ratio >= 1 + least_ratio and abs(new - old) >= least_difference:
                yield MetricStep(
                    row, int(measured[at - 1]), int(measured[at]), old, new
                )


def _segments(series: Matrix, least: float) -> Iterator[tuple[int, int, int]]:
    logs = np.log(series)
    changes = np.diff(logs)
    # Steps are rare among the differences of neighbours, so that their median deviation
    # measures the noise alone.
    noise = max(
        1.4826 * float(np.median(np.abs(changes - np.median(changes)))) / 2**0.5, 1e-4
    )
    near = np.lib.stride_tricks.sliding_window_view(
        np.pad(logs, _WINDOW // 2, mode="edge"), _WINDOW
    )
    middle = np.median(near, axis=1)
    logs = np.clip(logs, middle - _OUTLIER * noise, middle + _OUTLIER * noise)
    means = np.convolve(logs, np.full(_SHORTEST, 1 / _SHORTEST), mode="valid")
    if means.max() - means.min() < np.log1p(least) / 2:
        return  # no two segments can differ by so much
    bounds = segment_bounds(logs / noise, _PENALTY * float(np.log(len(logs))))
    yield from zip(bounds, bounds[1:], bounds[2:], strict=False)


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
    # A division into k segments gains what their means differ from 0, more than k - 1
    # penalties; then one of them alone gains more than half of one.
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
