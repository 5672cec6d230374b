"""Every change of a case's status across releases, found with few compiles."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import ClassVar

from packaging.version import Version

from triage.bisect.result import ReleaseBranch
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Probe, Untestable
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

_COST_OF_A_WINDOW = 3  # compiles: the one that finds it, and one to narrow down each of its ends
_SHORTER = 0.8  # a window that is one release longer is rarer by this factor
_EVERYWHERE = 0.5  # weight of a boundary where no case is known to change


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Two releases with different outcomes and no probe between them."""

    before: Revision
    after: Revision
    from_: str
    to: str
    from_failure: Failure | None
    to_failure: Failure | None

    @classmethod
    def between(cls, before: Probe, after: Probe) -> StatusChange:
        """Return the change from one probe to the next."""
        old, new = before.outcome, after.outcome
        return cls(before.revision, after.revision, plain_status(old), plain_status(new), old.failure, new.failure)


@dataclass(frozen=True, slots=True)
class HistoryState:
    """The first and the last of neighbours among the probed releases with one status and, if they fail, one signature."""

    first: str
    last: str
    status: str
    failure: Failure | None
    reason: str | None
    """Why they are untestable."""

    @property
    def releases(self) -> str:
        return self.first if self.first == self.last else f"{self.first} .. {self.last}"


@dataclass(frozen=True, slots=True)
class History:
    """One case across releases, oldest first."""

    about: Case
    places: tuple[Revision, ...]
    probes: tuple[Probe, ...]
    """Of the releases that were probed."""
    compiles: int
    """Without cache hits."""

    JSON_KEYS: ClassVar = dict.fromkeys(("about", "places", "probes"))
    JSON_PROPERTIES: ClassVar = (
        *("case", "recipe", "changes", "failure_changes"),
        *("statuses", "failures", "reasons", "states"),
    )

    @property
    def case(self) -> str:
        return self.about.name

    @property
    def recipe(self) -> str:
        return self.about.recipe

    @property
    def changes(self) -> tuple[StatusChange, ...]:
        """Neighbours among the probed releases whose statuses differ: passed, failed or untestable."""
        return tuple(change for change in self._steps() if change.from_ != change.to)

    @property
    def failure_changes(self) -> tuple[StatusChange, ...]:
        """Neighbours among the probed releases that both fail, in different classes."""
        return tuple(change for change in self._steps() if change.from_ == change.to)

    def _steps(self) -> Iterator[StatusChange]:
        pairs = pairwise(self.probes)
        return (StatusChange.between(a, b) for a, b in pairs if _state(a.outcome) != _state(b.outcome))

    @property
    def statuses(self) -> Mapping[str, str]:
        """The status on each release that was probed."""
        return {probe.revision.name: plain_status(probe.outcome) for probe in self.probes}

    @property
    def failures(self) -> Mapping[str, Failure | None]:
        """The failure on each release that does not pass."""
        return {probe.revision.name: probe.outcome.failure for probe in self.probes if plain_status(probe.outcome) != "passed"}

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why releases are untestable."""
        return {probe.revision.name: probe.outcome.reason for probe in self.probes if probe.outcome.reason is not None}

    @property
    def states(self) -> tuple[HistoryState, ...]:
        """The states of the case, oldest first."""
        states = []
        for (status, _), group in groupby(self.probes, key=lambda probe: _exact_state(probe.outcome)):
            first, *_, last = (*group,) * 2
            outcome = first.outcome
            states.append(HistoryState(first.revision.name, last.revision.name, status, outcome.failure, outcome.reason))
        return tuple(states)


@dataclass(frozen=True, slots=True)
class Histories:
    """The result of `triage history`."""

    cases: Sequence[History]
    branches: Sequence[ReleaseBranch] = ()
    """Those of releases where a status changes."""


def plain_status(outcome: Outcome) -> str:
    """`passed`, `failed` or `untestable`, whatever the recipe expects."""
    match outcome:
        case Compiled():
            return "passed"
        case Failed():
            return "failed"
        case Untestable():
            return "untestable"


def _state(outcome: Outcome) -> Hashable:
    match outcome:
        case Failed(failure=failure):
            return ("failed", failure.failure_class)
        case _:
            return (plain_status(outcome),)


def _exact_state(outcome: Outcome) -> tuple[str, str]:
    match outcome:
        case Failed(failure=failure):
            return "failed", failure.signature
        case Untestable(reason=reason):
            return "untestable", reason
        case Compiled():
            return "passed", ""


def histories(
    runner: Engine, cases: Sequence[Case], refs: Sequence[ToolchainRef], *, share: float = 0.5
) -> tuple[History, ...]:
    """Find the history of every case along releases, oldest first.

    Args:
        runner: Probes.
        cases: Their names are unique.
        refs: The releases.
        share: Part of all cases x releases that may be compiled; 1 compiles all. Below 1, a window of releases between two
            that agree can be missed. Changes that were seen are narrowed down even beyond the share.
    """
    survey = Survey(len(refs), {case.name: _hints(case, refs) for case in cases})
    by_name = {case.name: case for case in cases}
    index_of = {ref.revision.name: index for index, ref in enumerate(refs)}
    probes: dict[tuple[str, int], Probe] = {}
    compiles = dict.fromkeys(by_name, 0)
    allowed = math.floor(share * len(cases) * len(refs))

    def ask(wanted: Sequence[tuple[str, int]]) -> None:
        jobs = [ProbeJob(by_name[name], refs[index]) for name, index in sorted(wanted, key=lambda key: key[1])]
        for probe in runner.probe_all(jobs, "history"):
            name, index = probe.case.name, index_of[probe.revision.name]
            probes[name, index] = probe
            survey.add(name, index, _state(probe.outcome))
            compiles[name] += not probe.cached and probe.measured.seconds > 0

    if share >= 1:
        ask([(name, index) for name in by_name for index in range(len(refs))])
    else:
        ask(survey.begin())
        while True:
            needed = survey.narrow()
            if not needed:
                left = allowed - sum(compiles.values())
                needed = survey.explore(left // _COST_OF_A_WINDOW)
            if not needed:
                break
            ask(needed)
    revisions = tuple(ref.revision for ref in refs)
    return tuple(
        History(
            about=case,
            places=revisions,
            probes=tuple(probes[key] for key in sorted(probes) if key[0] == case.name),
            compiles=compiles[case.name],
        )
        for case in cases
    )


def _hints(case: Case, refs: Sequence[ToolchainRef]) -> list[int]:
    """Both sides of every bound of a window that the recipe names."""
    versions = [Version(ref.revision.name) for ref in refs]
    hints: set[int] = set()
    for bound in (bound for item in case.expect for bound in (item.since, item.until) if bound):
        index = sum(version < Version(bound) for version in versions)
        hints |= {index - 1, index}
    return sorted(index for index in hints if 0 <= index < len(refs))


@dataclass(slots=True)
class Survey:
    """Which releases to probe next so that every change is found. No I/O.

    Each case is a row of states over the same releases. Two neighbours among the known ones that differ hide a change between
    them, which halving narrows down. Two that agree may hide a short window. Those are searched where other cases change: a
    broken release is seldom broken for one case only.

    hints: releases to probe first, by case: the ends of windows that its recipe names. states: by case and release.
    """

    size: int
    hints: Mapping[str, Sequence[int]]
    states: dict[str, dict[int, Hashable]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.hints:
            self.states.setdefault(name, {})

    def add(self, name: str, index: int, state: Hashable) -> None:
        """Add the state of a case at a release."""
        self.states[name][index] = state

    def begin(self) -> list[tuple[str, int]]:
        """The ends of every row and the hints of its recipe."""
        ends = {0, self.size - 1}
        wanted = [(name, index) for name, hints in self.hints.items() for index in sorted(ends | set(hints))]
        return [(name, index) for name, index in wanted if index not in self.states[name]]

    def narrow(self) -> list[tuple[str, int]]:
        """The middle of every gap whose ends differ."""
        return [
            (name, (low + high) // 2)
            for name, row in self.states.items()
            for low, high in pairwise(sorted(row))
            if high - low > 1 and row[low] != row[high]
        ]

    def explore(self, count: int) -> list[tuple[str, int]]:
        """The `count` releases most likely to show a window that is hidden between two that agree."""
        weights = self.weights()
        scored = sorted(
            (
                (-self._chance(weights, low, high, index), name, index)
                for name, row in self.states.items()
                for low, high in pairwise(sorted(row))
                if row[low] == row[high]
                for index in range(low + 1, high)
            ),
        )
        chosen: list[tuple[str, int]] = []
        if count <= 0:
            return chosen
        for _, name, index in scored:
            row = self.states[name]
            low = max(known for known in row if known < index)
            high = min(known for known in row if known > low)
            if any(other == name and low < taken < high for other, taken in chosen):
                continue  # one at a time in a gap: its state moves the next best release
            chosen.append((name, index))
            if len(chosen) == count:
                break
        return chosen

    def weights(self) -> list[float]:
        """How likely a change is at each boundary: `weights[i]` is between the releases i - 1 and i."""
        weights = [_EVERYWHERE] * self.size
        for row in self.states.values():
            for low, high in pairwise(sorted(row)):
                if row[low] != row[high]:
                    for index in range(low + 1, high + 1):
                        weights[index] += 1 / (high - low)
        return weights

    def _chance(self, weights: Sequence[float], low: int, high: int, index: int) -> float:
        """Relative chance that a window between `low` and `high` covers `index`."""
        total = 0.0
        for begin in range(low + 1, index + 1):
            for end in range(index + 1, high + 1):
                total += weights[begin] * weights[end] * _SHORTER ** (end - begin - 1)
        return total
