"""Remedies that were found, what they cost and where they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Passed, Probe
from triage.model.revision import Revision
from triage.remedy.candidates import change_text

COST_METRICS: Mapping[str, tuple[str, str]] = {
    "dispatches": ("dispatches", ""),
    "shared_bytes": ("shared memory", " bytes"),
    "spill_bytes": ("spilled", " bytes"),
    "registers": ("registers", ""),
}
"""Metric -> label and unit, in the order of comparison and display."""
_SHOWN = (
    *COST_METRICS,
    "artifact_bytes",
    "binary_bytes",
    "time_ratio",
    "time_ratio_low",
    "time_ratio_high",
)


@dataclass(frozen=True, slots=True)
class RemedyCheck:
    """The case on another revision, without a remedy and with it. Costs are null where
    it does not compile.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = {
        "alias_generator": lambda name: name.removesuffix("_")
    }

    revision: Revision
    without: str
    with_: str
    cost_without: Mapping[str, float] | None
    cost_with: Mapping[str, float] | None
    breaks: bool
    """Whether the case compiles there only without the remedy."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that makes the case compile."""

    JSON_KEYS: ClassVar = {"rank": None}

    flags: tuple[str, ...]
    dropped_flags: tuple[str, ...]
    input_change: str | None
    input: str | None
    """The path of a rewritten input."""
    verified_on: tuple[Revision, ...]
    breaks: tuple[Revision, ...]
    """The revisions on which the case compiles only without it."""
    explanation: str
    smallest: bool
    """Whether the next smaller value fails."""
    only_silences_a_check: bool
    computes_in_other_types: bool
    cost: Mapping[str, float] | None
    checks: tuple[RemedyCheck, ...]
    rank: tuple[float, ...] = ()
    """Remedies are sorted by it, the best first."""

    @property
    def text(self) -> str:
        """The change in readable form."""
        return change_text(self.flags, self.dropped_flags, self.input_change)


@dataclass(frozen=True, slots=True)
class Promising:
    """A change that leads to another failure."""

    change: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Remedies:
    """The remedies of a failing case, the best first, or the reason why there is
    none.
    """

    JSON_KEYS: ClassVar = {"cause": None, "is_out_of_time": None}
    case: str
    toolchain: Revision
    reason: str | None = None
    """Why there is no remedy."""
    cause: Cause | None = None
    """Why the case cannot be tested."""
    failure: Failure | None = None
    """The failure to remedy, if the case fails."""
    remedies: tuple[Remedy, ...] = ()
    tried: int = 0
    """Candidates that were tried, with cached answers."""
    left: int = 0
    """Candidates that the budget left untried."""
    promising: tuple[Promising, ...] = ()
    notes: tuple[str, ...] = ()
    is_out_of_time: bool = False
    upgrade: Revision | None = None
    """The newest release, where it compiles the case without a change and is newer than
    the toolchain.
    """


def cost_of(probe: Probe) -> Mapping[str, float] | None:
    """Return the cost of a compile by name, if it compiled."""
    if not isinstance(probe.outcome, Passed):
        return None
    measured = probe.measured
    cost = {
        "cpu_seconds": measured.cpu_seconds,
        "seconds": measured.seconds,
        "peak_rss_mb": measured.peak_rss_mb,
    }
    return cost | {
        name: measured.metrics[name] for name in _SHOWN if name in measured.metrics
    }


def state_of(probe: Probe) -> str:
    """Return what happens on a version, in a few words."""
    match probe.outcome:
        case Passed():
            if probe.case.run:
                return "right"
            return "compiles"
        case Failed(failure):
            return f"fails: {failure.failure_class}"
        case NoAnswer(reason=reason):
            # What this compiler suggests instead of a flag says nothing about the
            # remedy.
            if reason.startswith("does not"):
                return reason.partition(";")[0]
            return f"untestable: {reason}"


def check_of(without: Probe, remedied: Probe) -> RemedyCheck:
    """Compare a case without and with a remedy. A rewritten input that this version
    cannot parse shows nothing.
    """
    holds = isinstance(remedied.outcome, Passed)
    unreadable = (
        isinstance(remedied.outcome, NoAnswer) and remedied.outcome.cause is Cause.INPUT
    )
    breaks = not holds and not unreadable and isinstance(without.outcome, Passed)
    states = (state_of(without), state_of(remedied))
    costs = (cost_of(without), cost_of(remedied))
    return RemedyCheck(remedied.revision, *states, *costs, breaks)
