"""What a search for remedies found."""

from __future__ import annotations

from dataclasses import dataclass

from triage.model.case import Case
from triage.model.outcome import Cause, Compiled, Failure, Probe, Untestable
from triage.model.revision import Revision
from triage.remedy.change import CaseChange


@dataclass(frozen=True, slots=True)
class Check:
    """A remedy on another revision: the case as it is there, and with the remedy."""

    plain: Probe
    remedied: Probe

    @property
    def breaks(self) -> bool:
        """Whether the case compiles there, and with the remedy does not any more. A changed program that is only spelled as
        another version reads it says nothing.
        """
        match self.remedied.outcome:
            case Compiled() | Untestable(cause=Cause.INPUT):
                return False
            case _:
                return isinstance(self.plain.outcome, Compiled)

    @property
    def flag_unknown(self) -> bool:
        """Whether the revision does not know a flag of the remedy."""
        outcome = self.remedied.outcome
        return isinstance(outcome, Untestable) and outcome.cause is Cause.FLAG


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change with which the case compiled. least: its value was narrowed, and the next smaller one was seen to fail.
    checks: what it does on other revisions; empty where that was not looked at.
    """

    change: CaseChange
    probe: Probe
    least: bool = False
    checks: tuple[Check, ...] = ()

    @property
    def verified_on(self) -> tuple[Revision, ...]:
        """Where the case was seen to compile with it."""
        checked = (check.remedied for check in self.checks if isinstance(check.remedied.outcome, Compiled))
        return (self.probe.revision, *(probe.revision for probe in checked))

    @property
    def breaks(self) -> tuple[Revision, ...]:
        """Where the case compiles without it, and not with it."""
        return tuple(check.remedied.revision for check in self.checks if check.breaks)


@dataclass(frozen=True, slots=True)
class Remedies:
    """What makes a failing case compile, the cheapest first. tried: candidates that were compiled, those whose answer was
    known included; left: candidates that the budget did not reach; promising: changes that led to another failure.
    """

    case: Case
    failing: Probe
    failure: Failure
    found: tuple[Remedy, ...]
    tried: int
    left: int = 0
    promising: tuple[tuple[CaseChange, Failure], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NothingToRemedy:
    """The case does not fail there, or in a way that no change of flags can mend. cause: where it could not be tested."""

    case: Case
    revision: Revision
    reason: str
    cause: Cause | None = None
