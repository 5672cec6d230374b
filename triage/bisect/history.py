"""Every change of a case's state across releases."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from packaging.version import Version

from triage.bisect.survey import Survey
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Outcome, Probe, Untestable
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

_COST_OF_A_WINDOW = 3  # compiles: the one that hits it, and one to narrow down each of its ends


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Two releases with different outcomes and nothing that was looked at between them."""

    before: Probe
    after: Probe


@dataclass(frozen=True, slots=True)
class History:
    """One case across releases, oldest first. `probes` has the places that were asked; `compiles` counts real ones.

    changes: passed <-> failed <-> untestable. failure_changes: from one failure class to another.
    """

    case: Case
    places: tuple[Revision, ...]
    probes: tuple[Probe, ...]
    compiles: int

    @property
    def changes(self) -> tuple[StatusChange, ...]:
        """Neighbours among the asked places whose statuses differ."""
        return tuple(StatusChange(a, b) for a, b in pairwise(self.probes) if plain_status(a.outcome) != plain_status(b.outcome))

    @property
    def failure_changes(self) -> tuple[StatusChange, ...]:
        """Neighbours among the asked places that both fail, in different classes."""
        return tuple(
            StatusChange(a, b)
            for a, b in pairwise(self.probes)
            if plain_status(a.outcome) == plain_status(b.outcome) and _state(a.outcome) != _state(b.outcome)
        )


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


def histories(
    bench: ProbeRunner, cases: Sequence[Case], places: Sequence[ToolchainRef], *, share: float = 0.5, fresh: bool = False
) -> tuple[History, ...]:
    """The history of every case along `places` (oldest first).

    share: how large a part of all cases x places may be compiled; 1 compiles all. Below 1 a window of releases that
    lies wholly between two places that agree can be missed. Narrowing down the changes seen goes on beyond the share.
    """
    survey = Survey(len(places), {case.name: _hints(case, places) for case in cases})
    by_name = {case.name: case for case in cases}
    index_of = {place.revision.name: index for index, place in enumerate(places)}
    probes: dict[tuple[str, int], Probe] = {}
    compiles = dict.fromkeys(by_name, 0)
    allowed = math.floor(share * len(cases) * len(places))

    def ask(wanted: Sequence[tuple[str, int]]) -> None:
        jobs = [ProbeJob(by_name[name], places[index], fresh) for name, index in sorted(wanted, key=lambda one: one[1])]
        for probe in bench.probe_all(jobs, "history"):
            name, index = probe.case.name, index_of[probe.revision.name]
            probes[name, index] = probe
            survey.know(name, index, _state(probe.outcome))
            compiles[name] += not probe.cached and probe.measured.seconds > 0

    if share >= 1:
        ask([(name, index) for name in by_name for index in range(len(places))])
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
    revisions = tuple(place.revision for place in places)
    return tuple(
        History(
            case=case,
            places=revisions,
            probes=tuple(probes[key] for key in sorted(probes) if key[0] == case.name),
            compiles=compiles[case.name],
        )
        for case in cases
    )


def _hints(case: Case, places: Sequence[ToolchainRef]) -> list[int]:
    """Both sides of every bound of a window that the recipe names."""
    versions = [Version(place.revision.name) for place in places]
    hints: set[int] = set()
    for bound in (bound for item in case.expect for bound in (item.since, item.until) if bound):
        at = sum(version < Version(bound) for version in versions)
        hints |= {at - 1, at}
    return sorted(index for index in hints if 0 <= index < len(places))
