"""A change to a case that may make it compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.classify.rules import RemedyCandidate
from triage.compilers.base import Constant, kernel_of
from triage.compilers.invocation import flag_name
from triage.model.case import Case, Flag, Input, InputKind


def is_for_tests(name: str) -> bool:
    """Return whether an option, by its name, is one for the compiler's own tests."""
    return "test" in name.split("-")


@dataclass(frozen=True, slots=True)
class CaseChange:
    """What is changed of a case at once."""

    flags: tuple[str, ...] = ()
    """Flags to pass instead of all others with their names."""
    dropped: tuple[str, ...] = ()
    """The names of the recipe's flags to drop, with their dashes."""
    options: Mapping[str, Constant] = field(default_factory=dict)
    """Options to launch the kernel with."""
    neighbour: Case | None = None
    """Another case of the recipe's matrix."""
    program: Path | None = None
    """A rewritten input."""
    rewrite: str = ""
    """The change of the program, as text."""
    caveat: str = ""
    """How the meaning of the rewritten program differs."""
    why: str = ""
    """The effect, if it is known."""
    limit: RemedyCandidate | None = None
    """How to narrow the value of the flag."""
    checks_less: bool = False
    """Whether a flag only disables a check."""
    recomputes: bool = False
    """Whether a flag changes the types of computations."""

    @property
    def input_change(self) -> str | None:
        """The change of the program or its launch, if there is one."""
        parts = [f"{name}={value}" for name, value in self.options.items()]
        return ", ".join([*parts, *([self.rewrite] if self.rewrite else [])]) or None

    @property
    def same_program(self) -> bool:
        """Whether the meaning of the program stays the same."""
        return self.neighbour is None and not self.caveat

    @property
    def for_tests(self) -> bool:
        """Whether a flag is meant for the compiler's own tests: it may vanish in any release."""
        return any(is_for_tests(flag_name(text)) for text in self.flags)

    @property
    def is_clean(self) -> bool:
        """Whether the program stays the same, with all checks, in its own types and with flags that are meant for users."""
        return self.same_program and not self.checks_less and not self.recomputes and not self.for_tests

    @property
    def text(self) -> str:
        """The change in readable form; it identifies the change."""
        return change_text(self.flags, self.dropped, self.input_change)

    def applied(self, case: Case) -> Case:
        """Return the changed case. It has another name, so that its results are not mistaken for the case's."""
        name = f"{case.name} (remedy)"
        case = self.neighbour or case
        if self.program:
            case = replace(case, input=Input(self.program, InputKind.MLIR))
        if self.options and (kernel := kernel_of(case)):
            case = replace(case, spec=replace(kernel, options={**kernel.options, **self.options}))
        gone = {flag_name(text) for text in (*self.flags, *self.dropped)}
        kept = [flag for flag in case.flags if flag_name(flag.text) not in gone]
        return replace(case, name=name, flags=(*kept, *map(Flag, self.flags)), expect=())

    def with_value(self, value: int) -> CaseChange:
        """Return the change with another value of the flag to narrow."""
        assert self.limit is not None
        return replace(self, flags=(f"{self.limit.least}={value}",))


def change_text(flags: Sequence[str], dropped: Sequence[str], input_change: str | None) -> str:
    """Return a change in readable form."""
    return " ".join([*flags, *(f"without {name}" for name in dropped), *([input_change] if input_change else [])])
