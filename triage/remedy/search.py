"""Try changes of a failing case, the cheap and likely ones first, and find the smallest value of a limit."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Probe
from triage.remedy.candidates import CaseChange
from triage.toolchains.registry import ToolchainRef


@dataclass
class Trials:
    """The changes that were tried for a case on one toolchain."""

    runner: Engine
    case: Case
    ref: ToolchainRef
    failure: Failure
    budget: int
    """The maximum number of changes. Cached answers count too, so that a resumed search tries the same ones."""
    deadline: float = inf
    """A moment of the monotonic clock."""
    longest: float = 0.0
    """The duration of the longest batch, in seconds; a batch that may end after the deadline is not begun."""
    exhaustive: bool = False
    """Whether to go on after a remedy is found."""
    probes: dict[str, tuple[CaseChange, Probe]] = field(default_factory=dict)
    """Text of a change -> the change and its result."""

    def search(self, first: Sequence[CaseChange], second: Sequence[CaseChange]) -> None:
        """Try all changes of the first tier, then those of the second one until the program compiles."""
        size = 2 * self.runner.jobs
        for changes, what in ((first, "known remedies"), (second, "compiler options")):
            for start in range(0, len(changes), size):
                new = [change for change in changes[start : start + size] if change.text not in self.probes]
                new = new[: max(0, self.budget - len(self.probes))]
                if not new or self.is_out_of_time or (changes is second and self.is_over):
                    continue
                began = time.monotonic()
                self.probes.update((tried[0].text, tried) for tried in self.compiled(new, what))
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
        return time.monotonic() + self.longest > self.deadline

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

    def with_smallest_value(self, change: CaseChange, probe: Probe) -> tuple[CaseChange, Probe, bool]:
        """Find the smallest value with which a change works, given that its largest does. The budget does not apply.

        Returns:
            The change, its probe, and whether the next smaller value fails.
        """
        if change.limit is None:
            return change, probe, False
        values = change.limit.least_values
        tried = {len(values): (change, probe)}

        def works(number: int) -> bool:
            [tried[number]] = self.compiled([change.with_value(values[number - 1])], f"the smallest {change.text}")
            return isinstance(tried[number][1].outcome, Compiled)

        number = bisect_left(range(1, len(values)), 1, key=works) + 1
        return *tried[number], number > 1
