"""Where the state of a case changes along releases, found with few compiles: which
releases to look at first, which next, and the history of cases.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from packaging.version import Version

from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.fields import UNPRINTED, in_json, key
from triage.model.outcome import (
    Exit,
    Failed,
    Outcome,
    Probe,
    ProbeResult,
    Status,
    exit_for_results,
)
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


def state_of(outcome: Outcome) -> tuple[str, str]:
    """Return the status, and the class of the failure, empty without one.

    Between two probes with different states lies a change.
    """
    if isinstance(outcome, Failed):
        return outcome.plain_status, outcome.failure.failure_class
    return outcome.plain_status, ""


def middles_of_changes(states: Mapping[int, Hashable]) -> list[int]:
    """Return the middle of every gap whose ends differ.

    >>> middles_of_changes({0: "passed", 2: "passed", 8: "failed"})
    [5]
    """
    return [
        (low + high) // 2
        for low, high in pairwise(states)
        if high - low > 1 and states[low] != states[high]
    ]


def looked_at_first(first: int, last: int, bounds: Iterable[int] = ()) -> list[int]:
    """Return the newest release, those 1, 2, 4, ... before it, the oldest, and what a
    recipe names.

    >>> looked_at_first(0, 9, [3])
    [9, 8, 7, 5, 1, 0, 3]
    """
    steps = [last - (1 << power) for power in range((last - first).bit_length())]
    wanted = dict.fromkeys((last, *steps, first, *bounds))
    return [index for index in wanted if first <= index <= last]


def releases_at_bounds(case: Case, refs: Sequence[ToolchainRef]) -> set[int]:
    """Return the releases around every bound of a window that the recipe names."""
    versions = [Version(ref.revision.name) for ref in refs]
    bounds = [bound for item in case.expect for bound in (item.since, item.until)]
    around: set[int] = set()
    for bound in filter(None, bounds):
        index = sum(version < Version(bound) for version in versions)
        around |= {index - 1, index}
    return around & set(range(len(refs)))


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Two releases with different statuses and no probe between them."""

    before: Revision
    after: Revision
    from_: str = field(metadata=key("from"))
    to: str


@dataclass(frozen=True, slots=True)
class History:
    """One case across releases, oldest first."""

    about: Case = field(metadata=UNPRINTED)
    results: tuple[ProbeResult, ...]
    """Of the releases that were probed."""
    compiles: int
    """Without cache hits."""

    @in_json
    def case(self) -> str:
        return self.about.name

    @in_json
    def recipe(self) -> str:
        return self.about.recipe

    @in_json
    def changes(self) -> tuple[StatusChange, ...]:
        """Neighbours among the probed releases whose statuses differ: passed, failed or
        untestable.
        """
        return tuple(
            StatusChange(
                before.toolchain,
                after.toolchain,
                before.plain_status,
                after.plain_status,
            )
            for before, after in pairwise(self.results)
            if before.plain_status is not after.plain_status
        )

    @in_json
    def statuses(self) -> Mapping[str, Status]:
        """The plain status on each release that was probed."""
        return {result.toolchain.name: result.plain_status for result in self.results}

    @property
    def states(self) -> list[list[ProbeResult]]:
        """Neighbours with one status and, if they fail, one signature, oldest first."""
        groups = groupby(self.results, key=lambda result: result.state)
        return [list(group) for _, group in groups]


@dataclass(frozen=True, slots=True)
class Histories:
    """The result of `triage history`."""

    cases: Sequence[History]

    @property
    def exit(self) -> Exit:
        """OK also where cases fail: a history says how each ended."""
        code = exit_for_results(result for row in self.cases for result in row.results)
        if code in (Exit.FOUND, Exit.INCONCLUSIVE):
            return Exit.OK
        return code


def histories(
    engine: Engine,
    cases: Sequence[Case],
    refs: Sequence[ToolchainRef],
) -> tuple[History, ...]:
    """Find the history of every case along releases, oldest first.

    Known results, the ends and the releases that a recipe names come first. Two
    neighbours among them that differ hide a change, which halving narrows down. Two
    that agree may hide a short window.
    """
    by_name = {case.name: case for case in cases}
    index_of = {ref.revision.name: index for index, ref in enumerate(refs)}
    probes: dict[str, dict[int, Probe]] = {name: {} for name in by_name}
    wanted = []
    for case in cases:
        named = {0, len(refs) - 1, *releases_at_bounds(case, refs)}
        for index, ref in enumerate(refs):
            if index in named or engine.recall(ProbeJob(case, ref)):
                wanted.append((index, case.name))
    while wanted:
        jobs = [ProbeJob(by_name[name], refs[index]) for index, name in sorted(wanted)]
        for probe in engine.probe_all(jobs, "history"):
            probes[probe.case.name][index_of[probe.revision.name]] = probe
        wanted = []
        for name, row in probes.items():
            states = {index: state_of(row[index].outcome) for index in sorted(row)}
            wanted += [(index, name) for index in middles_of_changes(states)]
    return tuple(
        History(
            case,
            tuple(result_of(row[index]) for index in sorted(row)),
            sum(
                not probe.cached and probe.measured.seconds > 0
                for probe in row.values()
            ),
        )
        for case, row in zip(cases, probes.values(), strict=True)
    )
