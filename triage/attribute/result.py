"""What a comparison of two compilers over one case found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from triage.attribute.ir_reader import PassName
from triage.classify import FailingPass
from triage.model.case import Case
from triage.model.outcome import Cause, Failed, Failure, Probe


class ComparisonResult(StrEnum):
    """What the comparison says."""

    PARTED = "parted"  # there is a pass after which the IR is another
    FAILING = "failing-pass"  # the IR is the same up to the pass that fails, which therefore is another itself
    SAME = "same"  # neither fails, and no pass makes a difference that lasts
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something of which the two sides have not the same: an operation with how often, or a choice with its value."""

    name: str
    good: str
    bad: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The IR of both sides in the form people read, as lines. `cut`: there was more."""

    good: tuple[str, ...]
    bad: tuple[str, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """Who changed the IR in a step: a pass of both sides, or one that did nothing on the other or is not there."""

    good: PassName | None
    bad: PassName | None

    @property
    def pass_name(self) -> PassName:
        """The pass; the bad side's where both have one."""
        name = self.bad or self.good
        assert name is not None
        return name


@dataclass(frozen=True, slots=True)
class PartedAt:
    """The pass after which the IR of both sides is no longer the same.

    function: the device function it was seen in, as the bad side calls it; None for the whole program.
    operations: with how often each side has them; choices: that both sides made, differently. Where both are empty,
    types or nesting differ. files: the source of the pass, relative to the repository, best first.
    """

    by: ComparedRun
    function: str | None
    operations: tuple[Difference, ...] = ()
    choices: tuple[Difference, ...] = ()
    excerpt: Excerpt | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PhaseComparison:
    """The program after one phase. good, bad: counts by name; None where the compile did not get that far. same: None
    unless both did. differences: operations with their types of which one side has more, the largest difference first.
    """

    phase: str
    good: Mapping[str, int] | None
    bad: Mapping[str, int] | None
    same: bool | None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Attribution:
    """failing: the innermost pass that fails on the bad side. function: what was followed, as the good and the bad side call
    it; None for the whole program. lasting: the pass after which the two never become the same again; first: an earlier one
    whose difference later passes undid; decided: a later one where the two choose otherwise, such as tile sizes.
    shared: bytes of shared memory of the function before its buffers are lowered, on each side, None where it is not known.
    files: what a search for the commit shall suspect. compiles: run for this, with `printed` bytes of dumps. cause: of the
    side that could not be tested.
    """

    case: Case
    good: Probe
    bad: Probe
    finding: ComparisonResult
    reason: str | None = None
    failing: PassName | None = None
    function: tuple[str | None, str | None] = (None, None)
    lasting: PartedAt | None = None
    first: PartedAt | None = None
    decided: PartedAt | None = None
    phases: tuple[PhaseComparison, ...] = ()
    shared: tuple[int | None, int | None] = (None, None)
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    compiles: int = 0
    printed: int = 0
    seconds: float = 0.0
    cause: Cause | None = None

    @property
    def failure(self) -> Failure | None:
        """What the bad side fails with."""
        return self.bad.outcome.failure if isinstance(self.bad.outcome, Failed) else None

    @property
    def first_phase(self) -> str | None:
        """The first phase whose output differs in meaning."""
        return next((one.phase for one in self.phases if one.same is False), None)

    @property
    def phase(self) -> str | None:
        """The phase that the pass to suspect belongs to; None where it is not known."""
        suspect = (
            self.lasting.by.pass_name if self.lasting else self.failing if self.finding is ComparisonResult.FAILING else None
        )
        return FailingPass(suspect.name, suspect.argument).phase if suspect else None

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes to suspect, by their class, the likeliest first."""
        if self.lasting is not None:
            return tuple(dict.fromkeys(at.by.pass_name.name for at in (self.lasting, self.decided) if at))
        return (self.failing.name,) if self.finding is ComparisonResult.FAILING and self.failing else ()
