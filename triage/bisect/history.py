"""Every change of a case's status across releases, found with few compiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from packaging.version import Version

from triage.execution.engine import Prober
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.json_form import UNPRINTED, in_json, key
from triage.model.outcome import Failed, Outcome, Status
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

# compiles: the one that finds it, and one to narrow down each of its ends
_COST_OF_A_WINDOW = 3

StateRows = dict[str, dict[int, Hashable]]  # by case and release


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
    places: tuple[Revision, ...] = field(metadata=UNPRINTED)
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
        return {one.toolchain.name: one.plain_status for one in self.results}

    @property
    def states(self) -> list[list[ProbeResult]]:
        """Neighbours with one status and, if they fail, one signature, oldest first."""
        groups = groupby(self.results, key=lambda one: one.state)
        return [list(group) for _, group in groups]


@dataclass(frozen=True, slots=True)
class Histories:
    """The result of `triage history`."""

    cases: Sequence[History]


def state_of(outcome: Outcome) -> tuple[str, str]:
    """Return the status, and the class of the failure, empty without one.

    Between two probes with different states lies a change.
    """
    if isinstance(outcome, Failed):
        return outcome.plain_status, outcome.failure.failure_class
    return outcome.plain_status, ""


def histories(
    prober: Prober,
    cases: Sequence[Case],
    refs: Sequence[ToolchainRef],
    *,
    share: float = 0.5,
) -> tuple[History, ...]:
    """Find the history of every case along releases, oldest first.

    Known results, the ends and the releases that a recipe names come first. Two
    neighbours among them that differ hide a change, which halving narrows down. Two
    that agree may hide a short window. Those are searched where other cases change: a
    broken release is seldom broken for one case only.

    `share` is the part of all cases x releases that may be compiled; 1 compiles all.
    Changes that were seen are narrowed down even beyond it.
    """
    by_name = {case.name: case for case in cases}
    index_of = {ref.revision.name: index for index, ref in enumerate(refs)}
    rows: StateRows = {name: {} for name in by_name}
    results: dict[tuple[str, int], ProbeResult] = {}
    compiles = dict.fromkeys(by_name, 0)
    wanted = []
    for case in cases:
        named = {0, len(refs) - 1, *bounds_of(case, refs)}
        for index, ref in enumerate(refs):
            if share >= 1 or index in named or prober.recall(ProbeJob(case, ref)):
                wanted.append((case.name, index))
    while wanted:
        jobs = [
            ProbeJob(by_name[name], refs[index])
            for name, index in sorted(wanted, key=lambda key: key[1])
        ]
        for probe in prober.probe_all(jobs, "history"):
            name, index = probe.case.name, index_of[probe.revision.name]
            results[name, index] = result_of(probe)
            rows[name][index] = state_of(probe.outcome)
            if not probe.cached and probe.measured.seconds > 0:
                compiles[name] += 1
        left = math.floor(share * len(cases) * len(refs)) - sum(compiles.values())
        wanted = middles_of_changes(rows) or where_windows_may_hide(
            rows, left // _COST_OF_A_WINDOW
        )
    revisions = tuple(ref.revision for ref in refs)
    return tuple(
        History(
            case,
            revisions,
            tuple(results[key] for key in sorted(results) if key[0] == case.name),
            compiles[case.name],
        )
        for case in cases
    )


def bounds_of(case: Case, refs: Sequence[ToolchainRef]) -> set[int]:
    """Return the releases around every bound of a window that the recipe names."""
    versions = [Version(ref.revision.name) for ref in refs]
    bounds = [bound for item in case.expect for bound in (item.since, item.until)]
    around: set[int] = set()
    for bound in filter(None, bounds):
        index = sum(version < Version(bound) for version in versions)
        around |= {index - 1, index}
    return around & set(range(len(refs)))


def middles_of_changes(rows: StateRows) -> list[tuple[str, int]]:
    """Return the middle of every gap whose ends differ, with its case.

    >>> middles_of_changes({"softmax": {0: "passed", 2: "passed", 8: "failed"}})
    [('softmax', 5)]
    """
    gaps = (
        (name, low, high, row)
        for name, row in rows.items()
        for low, high in pairwise(sorted(row))
    )
    return [
        (name, (low + high) // 2)
        for name, low, high, row in gaps
        if high - low > 1 and row[low] != row[high]
    ]


def where_windows_may_hide(rows: StateRows, count: int) -> list[tuple[str, int]]:
    """Return releases that may show a window hidden between two that agree, with their
    cases: one in a gap, `count` at most.

    Those at which most cases change come first, then the middles of long gaps.
    """
    changing: Counter[int] = Counter()
    for row in rows.values():
        for low, high in pairwise(sorted(row)):
            changing.update(range(low, high) if row[low] != row[high] else ())
    best = []
    for name, row in rows.items():
        for low, high in pairwise(sorted(row)):
            if row[low] == row[high] and high - low > 1:
                index = max(
                    range(low + 1, high),
                    key=lambda index: (changing[index], -abs(2 * index - low - high)),
                )
                best.append((-changing[index], low - high, name, index))
    return [(name, index) for *_, name, index in sorted(best)[: max(0, count)]]
