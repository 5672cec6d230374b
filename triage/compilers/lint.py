"""The interface of a family's lint rules: findings, rules, devices, and the limit of its affinity solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from triage.mlir import Module, SourcePosition
    from triage.model.revision import Toolchain


class Severity(StrEnum):
    """error: the program will not compile; warning: probably a mistake; advice: has caused failures before."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule: its name, the worst severity it reports, and a one-sentence description."""

    name: str
    severity: Severity
    summary: str


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding of one rule; `position` is None if it concerns no line of the program, such as a flag."""

    rule: str
    severity: Severity
    message: str
    position: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class ProgramDevice:
    """A device of a program.

    Attributes:
        declared: The option or attribute that declares it; None if nothing does.
        references: How often the program names it.
        position: The first reference.
    """

    name: str
    declared: str | None
    references: int
    position: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class ProgramFindings:
    """All findings of a program, its devices, and the options that declare undeclared devices."""

    findings: tuple[LintFinding, ...]
    devices: tuple[ProgramDevice, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SolverLimit:
    """How to measure the iterations that a family's affinity solver needs on one version.

    Attributes:
        rule: The rule that reports an exhausted solver.
        option: The option that sets the limit, up to its `=`; None if this version has none.
        phase: The phase that ends after the solver.
        failure_family: The failures of an exhausted solver.
        prepared_phase: The phase whose output the optimizer can analyse alone.
        prepared: Options of the compile that produces that output.
        analysis: Options of the optimizer.
    """

    rule: LintRule
    option: str | None
    phase: str
    failure_family: str
    prepared_phase: str
    prepared: tuple[str, ...]
    analysis: tuple[str, ...]


class Linter(Protocol):
    """The lint rules of one compiler family."""

    @property
    def rules(self) -> Sequence[LintRule]:
        """All rules, in documentation order."""

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        """Return the backend and the chip that a command line names; None for none or several."""

    def check(self, module: Module, options: Sequence[str], backend: str | None, chip: str | None) -> ProgramFindings:
        """Apply all rules to a module that is compiled with these options."""

    def solver(self, toolchain: Toolchain) -> SolverLimit:
        """Return how the affinity solver is limited and measured on this version."""
