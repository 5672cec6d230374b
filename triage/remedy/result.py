"""Remedies that were found, what they cost and where they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from triage.execution.in_turn import RATIO_METRICS
from triage.model.json_form import UNPRINTED, UNSTORED, in_json, key
from triage.model.outcome import Cause, Failure, MayLackAnswer, NoAnswer
from triage.model.probe_result import ProbeResult
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
    *RATIO_METRICS,
)


@dataclass(frozen=True, slots=True)
class RemedyCheck:
    """How the case ends on another revision, without a remedy and with it."""

    without: ProbeResult
    with_: ProbeResult = field(metadata=key("with"))

    @in_json
    def breaks(self) -> bool:
        """Whether the case passes without the remedy and fails with it. A rewritten
        input that this version cannot parse does not count.
        """
        is_unreadable = self.with_.cause is Cause.INPUT
        return self.without.passed and not self.with_.passed and not is_unreadable


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that makes the case compile."""

    flags: tuple[str, ...]
    dropped_flags: tuple[str, ...]
    input_change: str | None
    input: str | None
    """The path of a rewritten input."""
    verified_on: tuple[Revision, ...]
    breaks: tuple[Revision, ...]
    """The revisions on which the case compiles without the remedy and fails with it."""
    explanation: str
    smallest: bool
    """Whether the next smaller value fails."""
    only_silences_a_check: bool
    computes_in_other_types: bool
    cost: Mapping[str, float] | None
    checks: tuple[RemedyCheck, ...]
    weakness: str = ""
    """Why it is only a makeshift, so that the search goes on; empty if it is none."""
    rank: tuple[float, ...] = field(default=(), metadata=UNSTORED)
    """Remedies are sorted by it, the best first. It is not stored."""

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
class Remedies(MayLackAnswer):
    """The remedies of a failing case, the best first, or the reason why there is
    none.
    """

    case: str
    toolchain: Revision
    unanswered: NoAnswer | None = field(default=None, metadata=UNPRINTED)
    """Why there is no remedy."""
    failure: Failure | None = None
    """The failure to remedy, if the case fails."""
    remedies: tuple[Remedy, ...] = ()
    tried: int = 0
    """Candidates that were tried, with cached answers."""
    left: int = 0
    """Candidates that the budget left untried."""
    promising: tuple[Promising, ...] = ()
    notes: tuple[str, ...] = ()
    is_out_of_time: bool = field(default=False, metadata=UNPRINTED)
    upgrade: Revision | None = None
    """The newest release, if it is newer than the toolchain and compiles the case
    without a change.
    """


def cost_of(result: ProbeResult) -> Mapping[str, float] | None:
    """Return the cost of a compile by name, if it passed."""
    if not result.passed:
        return None
    cost = {
        "cpu_seconds": result.cpu_seconds,
        "seconds": result.seconds,
        "peak_rss_mb": result.peak_rss_mb,
    }
    shown = {name: result.metrics[name] for name in _SHOWN if name in result.metrics}
    return cost | shown
