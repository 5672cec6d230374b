"""Remedies that were found, what they cost and where they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf, log2

from triage.model.fields import UNPRINTED, in_json
from triage.model.outcome import (
    Exit,
    Failure,
    MayLackAnswer,
    NoAnswer,
    ProbeResult,
    exit_without_answer,
)
from triage.model.revision import Revision

COST_METRICS: Mapping[str, tuple[str, str]] = {
    "dispatches": ("dispatches", ""),
    "shared_bytes": ("shared memory", " bytes"),
    "spill_bytes": ("spilled", " bytes"),
    "registers": ("registers", ""),
}
"""Metric -> label and unit, in the order of comparison and display."""


class Weakness(StrEnum):
    """Why a change is only a makeshift, the mildest first."""

    NONE = ""
    OTHER_TYPES = "it computes in other types"
    OTHER_PROGRAM = "it changes the program"
    FOR_TESTS = "its flag is for the compiler's own tests"
    CHECKS_LESS = "it only silences a check"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of a case that may make it compile."""

    flags: tuple[str, ...] = ()
    """Flags to pass. They replace the case's flags with the same names."""
    dropped_flags: tuple[str, ...] = ()
    """The names of the recipe's flags to drop, with their dashes."""
    input_change: str | None = None
    """How the program, its launch or its key of the matrix changes."""
    input: str | None = None
    """The path of a rewritten program."""
    effect: str = ""
    """What the change does, if it is known."""
    weakness: Weakness = Weakness.NONE

    @property
    def text(self) -> str:
        """The change in readable form. Equal changes have equal texts."""
        parts = [*self.flags, *(f"without {name}" for name in self.dropped_flags)]
        return " ".join([*parts, self.input_change or ""]).strip()


@dataclass(frozen=True, kw_only=True)
class Remedy(Change):
    """A change that makes the case compile."""

    result: ProbeResult
    """The case with the remedy on the toolchain where it fails without."""
    verified_on: tuple[Revision, ...] = ()
    """The revisions on which the case compiles with the remedy."""
    breaks: tuple[Revision, ...] = ()
    """The revisions on which the case compiles only without the remedy."""

    def with_check(
        self, result: ProbeResult, without: ProbeResult | None = None
    ) -> Remedy:
        """Add how the case ends on a compiler with the remedy, and without it."""
        if result.passed:
            return replace(self, verified_on=(*self.verified_on, result.toolchain))
        if without and without.passed:
            return replace(self, breaks=(*self.breaks, result.toolchain))
        return self

    @in_json
    def cost(self) -> Mapping[str, float]:
        """What the compile takes, and the sizes of what it makes."""
        return self.result.numbers

    @in_json
    def explanation(self) -> str:
        """What the remedy does and what it is not good for, in sentences."""
        sentences = [self.effect, self.weakness.value]
        if self.input:
            sentences.append(f"the changed program is {self.input}")
        if self.breaks:
            names = ", ".join(revision.name for revision in self.breaks)
            sentences.append(f"it breaks {names}, which needs no remedy")
        shown = [
            f"{sentence[0].upper()}{sentence[1:]}."
            for sentence in sentences
            if sentence
        ]
        return " ".join(shown)

    @property
    def rank(self) -> tuple[float, ...]:
        """A key for sorting: the mildest changes come first, then the cheapest."""
        costs = (self.cost.get(name, inf) for name in (*COST_METRICS, "artifact_bytes"))
        return (
            len(self.breaks),
            list(Weakness).index(self.weakness),
            self.input_change is not None,
            round(log2(max(self.result.cpu_seconds, 0.1))),
            *costs,
            len(self.flags),
        )


@dataclass(frozen=True)
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
    upgrade: Revision | None = None
    """The newest release, if it is newer than the toolchain and compiles the case
    without a change.
    """

    @property
    def exit(self) -> Exit:
        if self.failure is None:
            return exit_without_answer(self.cause)
        if self.remedies or self.upgrade:
            return Exit.OK
        return Exit.INCONCLUSIVE
