"""Try candidates in tiers, the cheap and likely ones first, and narrow the values of limits."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Probe
from triage.remedy.change import CaseChange
from triage.toolchains.registry import ToolchainRef


@dataclass
class Trials:
    """The candidates that were tried for a case on one toolchain."""

    runner: Engine
    case: Case
    ref: ToolchainRef
    failure: Failure
    budget: int
    """The maximum number of candidates. Cached answers count too, so that a resumed search tries the same ones."""
    deadline: float | None = None
    """A moment of the monotonic clock."""
    longest: float = 0.0
    """The duration of the longest batch, in seconds; a batch that may end after the deadline is not begun."""
    exhaustive: bool = False
    """Whether to go on after a remedy is found."""
    probes: dict[str, tuple[CaseChange, Probe]] = field(default_factory=dict)
    """Text of a change -> the change and its result."""

    def attempt(self, changes: Sequence[CaseChange], what: str) -> None:
        """Try the changes that were not tried yet, as far as the budget and the time reach."""
        new = [change for change in changes if change.text not in self.probes][: max(0, self.budget - len(self.probes))]
        size = max(1, len(new) if self.deadline is None else self.runner.jobs)
        for start in range(0, len(new), size):
            if self.is_out_of_time:
                return
            began = time.monotonic()
            self.probes.update((tried[0].text, tried) for tried in self.compiled(new[start : start + size], what))
            self.longest = max(self.longest, time.monotonic() - began)

    def compiled(self, changes: Sequence[CaseChange], what: str) -> Iterator[tuple[CaseChange, Probe]]:
        """Yield each change and its probe, in the given order."""
        cases = [change.applied(self.case) for change in changes]
        answers = {id(probe.case): probe for probe in self.runner.probe_all([ProbeJob(case, self.ref) for case in cases], what)}
        for change, case in zip(changes, cases, strict=True):
            yield change, answers[id(case)]

    @property
    def is_out_of_time(self) -> bool:
        """Whether another batch would end after the deadline, if it takes as long as the longest so far."""
        return self.deadline is not None and time.monotonic() + self.longest > self.deadline

    @property
    def is_over(self) -> bool:
        """Whether a change that keeps the program and its checks works, and no others are wanted."""
        return not self.exhaustive and any(change.is_clean for change, _ in self.working)

    @property
    def working(self) -> list[tuple[CaseChange, Probe]]:
        return [(change, probe) for change, probe in self.probes.values() if isinstance(probe.outcome, Compiled)]

    @property
    def promising(self) -> list[tuple[CaseChange, Failure]]:
        """The changes that lead to another failure."""
        found = []
        for change, probe in self.probes.values():
            if isinstance(probe.outcome, Failed):
                failures = (probe.outcome.failure, *probe.outcome.others)
                if all(failure.signature != self.failure.signature for failure in failures):
                    found.append((change, failures[0]))
        return found


def search(trials: Trials, first: Sequence[CaseChange], second: Sequence[CaseChange]) -> None:
    """Try the first tier, then the second one until the program compiles."""
    trials.attempt(first, "known remedies")
    size = 2 * trials.runner.jobs
    for start in range(0, len(second), size):
        if not trials.is_over and len(trials.probes) < trials.budget and not trials.is_out_of_time:
            trials.attempt(second[start : start + size], "compiler options")


def with_smallest_value(trials: Trials, change: CaseChange, probe: Probe) -> tuple[CaseChange, Probe, bool]:
    """Find the smallest value with which a change works, given that its largest does. The budget does not apply.

    Returns:
        The change, its probe, and whether the next smaller value fails.
    """
    limit, parallel = change.limit, max(1, trials.runner.jobs)
    assert limit is not None
    values = limit.least_values
    low, high, best = -1, len(values) - 1, (change, probe)
    while high - low > 1:
        # Up to `parallel` indices strictly between both, evenly spaced by the magnitude of their values.
        first, last = max(1, values[low + 1]), values[high]
        wanted = [first * (last / first) ** (number / (parallel + 1)) for number in range(1, parallel + 1)]
        points = sorted({min(high - 1, bisect_left(values, value, low + 1, high)) for value in wanted})
        tried = trials.compiled([change.with_value(values[point]) for point in points], f"the smallest {limit.least}")
        for point, answer in zip(points, list(tried), strict=True):
            if isinstance(answer[1].outcome, Compiled):
                high, best = point, answer
                break
            low = point
    return *best, low >= 0
