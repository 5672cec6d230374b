"""Remedies that were found, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, log

from triage.model.case import Case
from triage.model.outcome import Cause, Compiled, Failure, Probe, Untestable
from triage.model.revision import Revision
from triage.remedy.change import CaseChange

COST_METRICS: Mapping[str, tuple[str, str]] = {
    "run_ms": ("run time", " ms"),
    "dispatches": ("dispatches", ""),
    "shared_bytes": ("shared memory", " bytes"),
    "spill_bytes": ("spilled", " bytes"),
    "registers": ("registers", ""),
}
"""Metric -> label and unit, in the order of comparison and display."""

_STEP = 1.25  # factor between costs that count as different


@dataclass(frozen=True, slots=True)
class RemedyCheck:
    """A remedy on another revision: the case without it and with it."""

    without: Probe
    remedied: Probe

    @property
    def breaks(self) -> bool:
        """Whether the case compiles there only without the remedy.

        A rewritten input that this version cannot parse shows nothing.
        """
        match self.remedied.outcome:
            case Compiled() | Untestable(cause=Cause.INPUT):
                return False
            case _:
                return isinstance(self.without.outcome, Compiled)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that makes the case compile. `smallest`: its value was narrowed; `checks`: its effect on other revisions."""

    change: CaseChange
    probe: Probe
    smallest: bool = False
    checks: tuple[RemedyCheck, ...] = ()

    @property
    def verified_on(self) -> tuple[Revision, ...]:
        checked = (check.remedied for check in self.checks if isinstance(check.remedied.outcome, Compiled))
        return (self.probe.revision, *(probe.revision for probe in checked))

    @property
    def breaks(self) -> tuple[Revision, ...]:
        """The revisions on which the case compiles only without it."""
        return tuple(check.remedied.revision for check in self.checks if check.breaks)


@dataclass(frozen=True, slots=True)
class Remedies:
    """The remedies of a failing case, the cheapest first, and the changes that lead to another failure (`promising`).

    `tried` counts the candidates that were tried, cached answers included; `left` those that exceed the budget;
    `is_out_of_time`: the time for them was over.
    """

    case: Case
    failing: Probe
    failure: Failure
    found: tuple[Remedy, ...]
    tried: int
    left: int = 0
    promising: tuple[tuple[CaseChange, Failure], ...] = ()
    notes: tuple[str, ...] = ()
    is_out_of_time: bool = False


@dataclass(frozen=True, slots=True)
class NothingToRemedy:
    """The case does not fail, or no change of flags can help. `cause`: why it cannot be tested."""

    case: Case
    revision: Revision
    reason: str
    cause: Cause | None = None


def cost_of(probe: Probe) -> dict[str, float]:
    """Return the known cost metrics of a compile, in order."""
    metrics = probe.measured.metrics
    return {name: metrics[name] for name in COST_METRICS if name in metrics}


def smallest_costs(probes: Iterable[Probe]) -> dict[str, float]:
    """Return the smallest value of each metric."""
    found: dict[str, float] = {}
    for probe in probes:
        for name, value in _comparable_cost(probe).items():
            found[name] = min(value, found.get(name, value))
    return found


def steps_above(probe: Probe, smallest: Mapping[str, float]) -> tuple[float, ...]:
    """Return the distance of each metric to the smallest, in whole steps of a quarter; infinite if unknown."""
    known = _comparable_cost(probe)
    return tuple(
        log((known[name] + 1) / (lowest + 1), _STEP) // 1 if name in known else inf for name, lowest in smallest.items()
    )


def _comparable_cost(probe: Probe) -> dict[str, float]:
    """Return the metrics to compare: of several run times the smallest, because other load only adds."""
    metrics = probe.measured.metrics
    return {name: metrics.get(f"{name}_least", value) for name, value in cost_of(probe).items()}


def cost_differences(before: Probe, after: Probe) -> dict[str, tuple[float, float]]:
    """Return the metrics that differ between two compiles, as (before, after)."""
    old, new = cost_of(before), cost_of(after)
    return {name: (old[name], new[name]) for name in old if name in new and old[name] != new[name]}
