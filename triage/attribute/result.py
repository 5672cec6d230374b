"""The result of comparing two compilers over one case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from triage.classify import FailingPass
from triage.mlir.ir_reader import PassName
from triage.model.outcome import Cause, Failure
from triage.model.revision import Revision


class ComparisonResult(StrEnum):
    """The result of a comparison. The values are part of the JSON answer."""

    DIVERGES = "parted"  # a pass produces different IR
    FAILING = "failing-pass"  # the IR is equal up to the pass that fails, so that pass itself changed
    SAME = "same"  # neither fails and no difference persists
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Difference:
    """A count of operations or a choice that differs between the two sides."""

    name: str
    good: str
    bad: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The IR of both sides in readable syntax, as lines. `cut`: lines are missing at the end."""

    good: tuple[str, ...]
    bad: tuple[str, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class DivergingPass:
    """A pass after which the IR of both sides differs.

    Attributes:
        good: The pass on the good side; None if it changed nothing there or does not exist.
        function: The device function, by its name on the bad side; None for the whole program.
        operations: Operations that occur more often on one side. If these and `choices` are empty, types or nesting differ.
        files: Source files of the pass, relative to the repository, best first.
    """

    good: PassName | None
    bad: PassName | None
    function: str | None
    operations: tuple[Difference, ...] = ()
    choices: tuple[Difference, ...] = ()
    excerpt: Excerpt | None = None
    files: tuple[str, ...] = ()

    JSON_KEYS: ClassVar = {"good": None, "bad": None, "excerpt": None}
    JSON_PROPERTIES: ClassVar = ("name", "argument", "on")

    @property
    def name(self) -> str:
        """The class of the pass."""
        return self.pass_name.name

    @property
    def argument(self) -> str | None:
        """The pass as an option names it."""
        return self.pass_name.argument

    @property
    def on(self) -> str:
        """The sides that the pass changed: `good`, `bad` or `both`."""
        return "both" if self.good and self.bad else "bad" if self.bad else "good"

    @property
    def pass_name(self) -> PassName:
        """The pass, by the bad side's name if both have one."""
        name = self.bad or self.good
        assert name is not None
        return name


@dataclass(frozen=True, slots=True)
class PhaseComparison:
    """The program after one phase: counts by name, None for a side that did not get that far.

    `same` is None unless both got that far. `differences` begins with the largest one.
    """

    phase: str
    good: Mapping[str, int] | None
    bad: Mapping[str, int] | None
    same: bool | None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Attribution:
    """Which pass makes the difference between two compilers."""

    case: str
    good: Revision
    bad: Revision
    status: ComparisonResult
    reason: str | None = None
    """Why the comparison is inconclusive."""
    cause: Cause | None = None
    """Why one side could not be tested."""
    failure: Failure | None = None
    """The failure of the bad side."""
    failing: PassName | None = None
    """The innermost pass that fails on the bad side."""
    function: Mapping[str, str | None] = field(default_factory=dict)
    """The function that was followed, by its name on each side; None for the whole program."""
    persistent: DivergingPass | None = None
    """The pass after which the two never become equal again."""
    first: DivergingPass | None = None
    """An earlier pass whose difference later passes undo."""
    decided: DivergingPass | None = None
    """A later pass that makes different choices, such as tile sizes."""
    one_sided: tuple[PassName, ...] = ()
    """The passes that changed IR on one side only."""
    phases: tuple[PhaseComparison, ...] = ()
    shared_memory_bytes: Mapping[str, int | None] = field(default_factory=dict)
    """Of the function, before its buffers become pointers, on each side; None if unknown."""
    files: tuple[str, ...] = ()
    """Source files that a commit search should suspect."""
    notes: tuple[str, ...] = ()
    compiles: int = 0
    printed_bytes: int = 0
    """The IR that the compiles printed."""
    seconds: float = 0.0

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {
        **dict.fromkeys(("cause", "failing", "one_sided")),
        "persistent": "pass",
        "first": "earlier",
        "passes": "suspect_passes",
        "files": "suspect_files",
    }
    JSON_PROPERTIES: ClassVar = ("failing_pass", "first_phase", "passes")

    @property
    def failing_pass(self) -> str | None:
        return self.failing.name if self.failing else None

    @property
    def first_phase(self) -> str | None:
        """The first phase whose output differs in meaning."""
        return next((comparison.phase for comparison in self.phases if comparison.same is False), None)

    @property
    def suspects(self) -> tuple[PassName, ...]:
        """The passes to suspect, the likeliest first."""
        if self.persistent is not None:
            return tuple(diverging.pass_name for diverging in (self.persistent, self.decided) if diverging)
        return (self.failing,) if self.status is ComparisonResult.FAILING and self.failing else ()

    @property
    def phase(self) -> str | None:
        """The phase of the likeliest suspect."""
        return next((FailingPass(suspect.name, suspect.argument).phase for suspect in self.suspects), None)

    @property
    def passes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(suspect.name for suspect in self.suspects))
