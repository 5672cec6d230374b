"""The smallest value of a flag with which a case compiles, by trying several values at once."""

from __future__ import annotations

from bisect import bisect_left

from triage.model.outcome import Compiled
from triage.model.probe import Probe
from triage.remedy.change import Change
from triage.remedy.search import Trials


def narrowed(trials: Trials, change: Change, probe: Probe) -> tuple[Change, Probe, bool]:
    """The change with the smallest value that does, given one that compiles with its largest; whether the next smaller
    value was seen to fail. Outside of the budget: what was found is made cheaper, nothing new is looked for.
    """
    assert change.least is not None
    values = change.least.values
    low, high = -1, len(values) - 1  # it compiles with values[high]; with values[low] it does not
    best = (change, probe)
    while high - low > 1:
        points = _between(low, high, values, max(1, trials.bench.jobs))
        tries = [change.with_value(values[point]) for point in points]
        probes = dict(zip(points, trials.compiled(tries, f"the smallest --{change.least.name}"), strict=True))
        good = [point for point in points if isinstance(probes[point][1].outcome, Compiled)]
        if good:
            high = good[0]
            best = probes[high]
        low = max([low, *(point for point in points if point < high)])
    return *best, low >= 0


def _between(low: int, high: int, values: range | tuple[int, ...], count: int) -> list[int]:
    """Up to `count` places strictly between two, evenly by the magnitude of their values."""
    first, last = max(1, values[low + 1]), values[high]
    wanted = (first * (last / first) ** (number / (count + 1)) for number in range(1, count + 1))
    return sorted({min(high - 1, bisect_left(values, value, low + 1, high)) for value in wanted})
