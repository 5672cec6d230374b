"""Try candidates in tiers, the cheap and likely ones first, and narrow the values of limits."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Probe
from triage.remedy.change import CaseChange, combined, contradict
from triage.toolchains.registry import ToolchainRef

_MAX_PARTNERS = 8  # first-tier candidates that a promising change is paired with; pairs that are tried before the second tier


@dataclass
class Trials:
    """The candidates that were tried for a case on one toolchain.

    `budget` limits their number. Cached answers count too, so that a resumed search tries the same candidates. `deadline` is
    a moment of the monotonic clock, None for no limit; `longest` is the duration of the longest batch, in seconds;
    `exhaustive`: go on after a remedy is found.
    """

    runner: Engine
    case: Case
    ref: ToolchainRef
    failure: Failure
    budget: int
    deadline: float | None = None
    longest: float = 0.0
    exhaustive: bool = False
    probes: dict[str, Probe] = field(default_factory=dict)
    changes: dict[str, CaseChange] = field(default_factory=dict)

    def attempt(self, changes: Sequence[CaseChange], what: str) -> None:
        """Try the changes that were not tried yet, as far as the budget reaches."""
        new = [change for change in changes if change.text not in self.probes][: max(0, self.budget - len(self.probes))]
        size = max(1, len(new) if self.deadline is None else self.runner.jobs)
        for start in range(0, len(new), size):
            began = time.monotonic()
            if self.is_out_of_time:
                return
            for change, probe in self.compiled(new[start : start + size], what):
                self.changes[change.text] = change
                self.probes[change.text] = probe
            self.longest = max(self.longest, time.monotonic() - began)

    @property
    def is_out_of_time(self) -> bool:
        """Whether another batch would end after the deadline, if it takes as long as the longest so far."""
        return self.deadline is not None and time.monotonic() + self.longest > self.deadline

    def compiled(self, changes: Sequence[CaseChange], what: str) -> Iterator[tuple[CaseChange, Probe]]:
        """Yield each change and its probe, in the given order."""
        cases = [change.applied(self.case) for change in changes]
        jobs = [ProbeJob(case, self.ref) for case in cases]
        answers = {id(probe.case): probe for probe in self.runner.probe_all(jobs, what)}
        for change, case in zip(changes, cases, strict=True):
            yield change, answers[id(case)]

    @property
    def tried(self) -> int:
        return len(self.probes)

    @property
    def working(self) -> tuple[tuple[CaseChange, Probe], ...]:
        return tuple((self.changes[text], probe) for text, probe in self.probes.items() if isinstance(probe.outcome, Compiled))

    @property
    def solved(self) -> bool:
        """Whether the program itself compiles, with all checks, in its own types and with flags that are meant for users."""
        return any(
            change.same_program and not change.checks_less and not change.recomputes and not change.for_tests
            for change, _ in self.working
        )

    @property
    def promising(self) -> tuple[tuple[CaseChange, Failure], ...]:
        return tuple(
            (self.changes[text], probe.outcome.failure)
            for text, probe in self.probes.items()
            if isinstance(probe.outcome, Failed)
            and self.failure.signature not in {failure.signature for failure in (probe.outcome.failure, *probe.outcome.others)}
        )


def search(trials: Trials, first: Sequence[CaseChange], second: Sequence[CaseChange]) -> None:
    """Try the first tier, a few pairs of it, the second tier, and more pairs.

    After the first tier the search ends as soon as the program compiles, unless it is exhaustive. A quarter of the budget is
    reserved for pairs.
    """
    trials.attempt(first, "known remedies")
    working = [change for change, _ in trials.working]
    alone = [change for change in first if change not in working]
    _in_batches(trials, pairs(trials.promising, alone)[:_MAX_PARTNERS], "pairs of changes")
    left = trials.budget - trials.tried
    _in_batches(trials, second[: max(0, left - left // 4)], "compiler options")
    _in_batches(trials, pairs(trials.promising, alone), "pairs of changes")
    _in_batches(trials, second, "compiler options")


def pairs(promising: Sequence[tuple[CaseChange, Failure]], first: Sequence[CaseChange]) -> tuple[CaseChange, ...]:
    """Pair promising changes with each other, then with the likeliest candidates of the first tier."""
    changes = [change for change, _ in promising if change.same_program]
    likely = [change for change in first if change.same_program and change not in changes][:_MAX_PARTNERS]
    candidates = [*combinations(changes, 2), *((change, other) for change in changes for other in likely)]
    return tuple(combined(change, other) for change, other in candidates if not contradict(change, other))


def _in_batches(trials: Trials, changes: Sequence[CaseChange], what: str) -> None:
    size = 2 * trials.runner.jobs
    for start in range(0, len(changes), size):
        if (trials.solved and not trials.exhaustive) or trials.tried >= trials.budget or trials.is_out_of_time:
            return
        trials.attempt(changes[start : start + size], what)


def with_smallest_value(trials: Trials, change: CaseChange, probe: Probe) -> tuple[CaseChange, Probe, bool]:
    """Find the smallest value with which a change works, given that its largest does. The budget does not apply.

    Returns:
        The change, its probe, and whether the next smaller value fails.
    """
    limit = change.limit
    assert limit is not None
    probes = {limit.values[-1]: (change, probe)}

    def works(values: list[int]) -> list[bool]:
        changes = [change.with_value(value) for value in values]
        answers = list(trials.compiled(changes, f"the smallest --{limit.name}"))
        probes.update(zip(values, answers, strict=True))
        return [isinstance(answer.outcome, Compiled) for _, answer in answers]

    low, high = narrow(limit.values, -1, len(limit.values) - 1, max(1, trials.runner.jobs), works)
    return *probes[limit.values[high]], low >= 0


def narrow(
    values: Sequence[int], low: int, high: int, parallel: int, works: Callable[[list[int]], list[bool]]
) -> tuple[int, int]:
    """Narrow the range between a value that fails and a larger one that works, testing `parallel` values together.

    Values ascend, and those above one that works must work. Each value is tested at most once. `low` and `high` are the
    indices of a value that fails (-1 for none) and of one that works.

    Returns:
        Adjacent indices: the largest value that fails (-1 if all work) and the smallest that works.
    """
    while high - low > 1:
        # Up to `parallel` indices strictly between both, evenly spaced by the magnitude of their values.
        first, last = max(1, values[low + 1]), values[high]
        wanted = [first * (last / first) ** (number / (parallel + 1)) for number in range(1, parallel + 1)]
        points = sorted({min(high - 1, bisect_left(values, value, low + 1, high)) for value in wanted})
        answers = works([values[point] for point in points])
        high = next((point for point, answer in zip(points, answers, strict=True) if answer), high)
        low = max([low, *(point for point in points if point < high)])
    return low, high
