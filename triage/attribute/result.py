"""The result of comparing two compilers over one case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from triage.model.execution import PassName
from triage.model.fields import in_json, key
from triage.model.outcome import (
    Exit,
    Failure,
    MayLackAnswer,
    NoAnswer,
    exit_without_answer,
)
from triage.model.revision import Revision


class ComparisonResult(StrEnum):
    """The result of a comparison. The values are part of the JSON answer."""

    DIVERGES = "parted"  # a pass produces different IR
    # the IR is equal up to the pass that fails, so that pass itself changed
    FAILING = "failing-pass"
    SAME = "same"  # neither fails and no difference persists
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Difference:
    """A count of operations or a choice that differs between the two compilers."""

    name: str
    good: str
    bad: str


@dataclass(frozen=True)
class DivergingPass:
    """A pass after which the IR of both compilers differs."""

    good: PassName | None
    """The pass on the good compiler, if it changed something there."""
    bad: PassName | None
    """The pass on the bad compiler, if it changed something there."""
    function: str | None
    """The device function, by its name on the bad compiler; None for the whole program.
    """
    operations: tuple[Difference, ...] = ()
    """Operations that occur more often on one compiler. If these and `choices` are
    empty, types differ.
    """
    choices: tuple[Difference, ...] = ()
    """Decisions of the compilers that differ, such as tile sizes."""

    @in_json
    def name(self) -> str:
        """The class of the pass."""
        return self.pass_name.name

    @in_json
    def argument(self) -> str | None:
        """The pass as an option names it."""
        return self.pass_name.argument

    @property
    def pass_name(self) -> PassName:
        """The pass, by its name on the bad compiler if both have one."""
        name = self.bad or self.good
        assert name is not None
        return name


@dataclass(frozen=True)
class Attribution(MayLackAnswer):
    """Which pass makes the difference between two compilers."""

    case: str
    good: Revision
    bad: Revision
    status: ComparisonResult
    unanswered: NoAnswer | None = None
    """Why the comparison is inconclusive."""
    failure: Failure | None = None
    """The failure of the bad compiler."""
    failing: PassName | None = None
    """The innermost pass that fails on the bad compiler."""
    function: Mapping[str, str | None] = field(default_factory=dict)
    """The function that was followed, by its name on each compiler; None for the whole
    program.
    """
    persistent: DivergingPass | None = field(default=None, metadata=key("pass"))
    """The pass that most likely makes the difference."""
    other: DivergingPass | None = None
    """A second candidate, if it is not sure which of two passes makes the difference.
    """
    notes: tuple[str, ...] = ()

    @property
    def exit(self) -> Exit:
        if self.status is ComparisonResult.INCONCLUSIVE:
            return exit_without_answer(self.cause)
        return Exit.OK

    @in_json
    def is_sure(self) -> bool:
        """Whether one pass is the answer. Where nothing fails, compilers that lie apart
        differ in many ways, so that only a choice, such as a tile size, decides.
        """
        if self.other is not None:
            return False
        if self.status is not ComparisonResult.DIVERGES or self.failure is not None:
            return True
        return self.persistent is not None and bool(self.persistent.choices)

    @in_json
    def failing_pass(self) -> str | None:
        if self.failing:
            return self.failing.name
        return None

    @in_json
    def first_phase(self) -> str | None:
        """The phase of the pass after which the two diverge, if its name tells."""
        if self.persistent:
            return _phase_of(self.persistent.pass_name)
        return None

    @property
    def suspects(self) -> tuple[PassName, ...]:
        """The passes to suspect, the likeliest first."""
        passes = [
            diverging.pass_name
            for diverging in (self.persistent, self.other)
            if diverging
        ]
        if not passes and self.status is ComparisonResult.FAILING and self.failing:
            passes = [self.failing]
        return tuple(passes)

    @property
    def phase(self) -> str | None:
        if self.suspects:
            return _phase_of(self.suspects[0])
        return None

    @in_json
    def suspect_passes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(suspect.name for suspect in self.suspects))


def _phase_of(name: PassName) -> str | None:
    from triage.classify import phase_of  # slow to import

    return phase_of(name)
