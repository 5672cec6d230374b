"""How a family checks programs before they are compiled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from triage.model.json_form import UNPRINTED, in_json, key
from triage.model.revision import Toolchain

if TYPE_CHECKING:  # it parses MLIR
    from triage.mlir import Module, SourcePosition


class Severity(StrEnum):
    """An error does not compile, a warning is probably a mistake, and advice is about
    what has caused failures before.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule: its name, the worst severity it reports, and a one-sentence
    description.
    """

    name: str
    severity: Severity
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Something at a place of a program, or, such as a flag, at none."""

    position: SourcePosition | None = field(default=None, metadata=UNPRINTED)

    @in_json
    def location(self) -> str | None:
        """`file:line:column`."""
        if self.position:
            return str(self.position)
        return None


@dataclass(frozen=True, slots=True)
class LintFinding(Located):
    """A finding of one rule."""

    rule: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class ProgramDevice(Located):
    """A device of a program. Its position is that of the first reference."""

    name: str
    declared: str | None
    """What declares it."""
    references: int


@dataclass(frozen=True, slots=True)
class ProgramFindings:
    """All findings of a program, its devices, options that fix findings, and what was
    not checked.
    """

    findings: tuple[LintFinding, ...] = field(default=(), metadata=UNPRINTED)
    devices: tuple[ProgramDevice, ...] = field(default=(), metadata=UNPRINTED)
    flags: tuple[str, ...] = field(default=(), metadata=key("suggested_flags"))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SolverLimit:
    """How to measure the iterations that a family's affinity solver needs on one
    version.
    """

    rule: LintRule
    """Reports an exhausted solver."""
    other_rule: LintRule
    """Reports another failure of the compile that measures."""
    option: str | None
    """Sets the limit; up to its `=`. Not every version has one."""
    phase: str
    """Ends after the solver."""
    failure_classes: frozenset[str]
    """The failures that the option affects."""
    guess: int
    """The number of iterations to try first."""


class Linter(ABC):
    """Checks programs before they are compiled."""

    rules: Sequence[LintRule]
    """All rules, in documentation order."""

    @abstractmethod
    def check(
        self,
        module: Module,
        options: Sequence[str],
        backend: str | None,
        chip: str | None,
    ) -> ProgramFindings:
        """Apply all rules to a module that is compiled with these options."""

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        """Return the backend and the chip that a command line compiles for, each if it
        names exactly one.
        """
        return None, None

    def graph(self, module: Module, options: Sequence[str]) -> str:
        """Return a module's devices and transfers as a Mermaid flowchart."""
        return ""

    def solver(self, toolchain: Toolchain, module: Module) -> SolverLimit | None:
        """Return how the affinity solver is limited and measured on this version, if
        the compiler has one.
        """
        return None
