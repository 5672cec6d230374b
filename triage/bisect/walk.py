"""Where the state of a case changes along releases: which releases to look at first,
and which next.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise

from packaging.version import Version

from triage.model.case import Case
from triage.model.outcome import Failed, Outcome
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


def bounds_of(case: Case, refs: Sequence[ToolchainRef]) -> set[int]:
    """Return the releases around every bound of a window that the recipe names."""
    versions = [Version(ref.revision.name) for ref in refs]
    bounds = [bound for item in case.expect for bound in (item.since, item.until)]
    around: set[int] = set()
    for bound in filter(None, bounds):
        index = sum(version < Version(bound) for version in versions)
        around |= {index - 1, index}
    return around & set(range(len(refs)))
