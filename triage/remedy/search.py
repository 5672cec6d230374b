"""Candidates tried in tiers, the cheap and likely ones first, and what came of them. Every compile goes by the evidence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Probe
from triage.remedy.change import CaseChange, both, contradict
from triage.toolchains.registry import ToolchainRef

_PARTNERS = 8  # of the first tier, that a promising change is paired with; and pairs of the first tier that come first


@dataclass
class Trials:
    """What was tried of a case at a place. budget: candidates that may be tried, known answers included, so that a search
    that is taken up again tries the same.
    """

    bench: ProbeRunner
    case: Case
    place: ToolchainRef
    failure: Failure
    budget: int
    probes: dict[str, Probe] = field(default_factory=dict)
    changes: dict[str, CaseChange] = field(default_factory=dict)

    def attempt(self, changes: Sequence[CaseChange], what: str) -> None:
        """Try those that were not tried yet, at once, as far as the budget reaches."""
        new = [change for change in changes if change.text not in self.probes][: max(0, self.budget - len(self.probes))]
        for change, probe in self.compiled(new, what):
            self.changes[change.text] = change
            self.probes[change.text] = probe

    def compiled(self, changes: Sequence[CaseChange], what: str) -> Iterator[tuple[CaseChange, Probe]]:
        """Each change and what came of it, in the order given."""
        cases = [change.applied(self.case) for change in changes]
        jobs = [ProbeJob(case, self.place) for case in cases]
        answers = {id(probe.case): probe for probe in self.bench.probe_all(jobs, what)}
        for change, case in zip(changes, cases, strict=True):
            yield change, answers[id(case)]

    @property
    def tried(self) -> int:
        """How many candidates were tried."""
        return len(self.probes)

    @property
    def working(self) -> tuple[tuple[CaseChange, Probe], ...]:
        """The changes with which it compiled, in the order tried."""
        return tuple((self.changes[text], probe) for text, probe in self.probes.items() if isinstance(probe.outcome, Compiled))

    @property
    def helpful(self) -> tuple[CaseChange, ...]:
        """The changes that need no other."""
        return tuple(change for change, _ in self.working)

    @property
    def mended(self) -> bool:
        """Whether the program itself compiles, not only another one in its place, with a check silenced or in other types."""
        return any(change.same_program and not change.checks_less and not change.recomputes for change, _ in self.working)

    @property
    def promising(self) -> tuple[tuple[CaseChange, Failure], ...]:
        """The changes that led to another failure."""
        return tuple(
            (self.changes[text], probe.outcome.failure)
            for text, probe in self.probes.items()
            if isinstance(probe.outcome, Failed) and not self._is_same(probe.outcome)
        )

    def _is_same(self, outcome: Failed) -> bool:
        return any(one.signature == self.failure.signature for one in (outcome.failure, *outcome.others))


def search(trials: Trials, first: Sequence[CaseChange], second: Sequence[CaseChange]) -> None:
    """All of the first tier; then a few pairs of it, the second tier and more pairs, until the program compiles or the
    budget is used up. A quarter of what is left is kept for pairs, where there are any.
    """
    trials.attempt(first, "what is known to help")
    alone = [one for one in first if one not in trials.helpful]
    _in_pieces(trials, pairs(trials.promising, alone)[:_PARTNERS], "two at once")
    left = trials.budget - trials.tried
    _in_pieces(trials, second[: max(0, left - left // 4)], "the compiler's own options")
    _in_pieces(trials, pairs(trials.promising, alone), "two at once")
    _in_pieces(trials, second, "the compiler's own options")


def pairs(promising: Sequence[tuple[CaseChange, Failure]], first: Sequence[CaseChange]) -> tuple[CaseChange, ...]:
    """Promising changes with each other, then each with the likeliest candidates of the first tier."""
    changes = [change for change, _ in promising if change.same_program]
    likely = [change for change in first if change.same_program and change not in changes][:_PARTNERS]
    candidates = [*combinations(changes, 2), *((one, other) for one in changes for other in likely)]
    return tuple(both(one, other) for one, other in candidates if not contradict(one, other))


def _in_pieces(trials: Trials, changes: Sequence[CaseChange], what: str) -> None:
    size = 2 * trials.bench.jobs
    for start in range(0, len(changes), size):
        if trials.mended or trials.tried >= trials.budget:
            return
        trials.attempt(changes[start : start + size], what)


def narrowed(trials: Trials, change: CaseChange, probe: Probe) -> tuple[CaseChange, Probe, bool]:
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
