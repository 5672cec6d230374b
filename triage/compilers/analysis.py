"""The optional interfaces of a compiler family: how it prints IR, its lint rules, and its knowledge about remedies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from triage.compilers.base import MlirTools
    from triage.compilers.invocation import Invocation
    from triage.mlir import Module, SourcePosition
    from triage.mlir.fingerprint import Vocabulary
    from triage.model.case import Case
    from triage.model.revision import Toolchain


class Ir(Protocol):
    """How a family's compiler prints its IR, and the MLIR tools next to it."""

    def tools(self, toolchain: Toolchain) -> MlirTools | None:
        """The toolchain's MLIR tools; None when the installation has none."""

    def dialects(self, toolchain: Toolchain) -> frozenset[str]:
        """The MLIR dialects that it registers; empty when it lists none. EnvironmentFailure when it does not run."""

    def naming_pass(self, invocation: Invocation) -> Invocation:
        """The same compile, printing which pass failed."""

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        """The same compile on one thread."""

    @property
    def words(self) -> Vocabulary:
        """The names of its operations, types and passes."""

    def is_printed_by(self, toolchain: Toolchain) -> bool:
        """Whether this compiler has the options that print IR."""

    def phases(self, toolchain: Toolchain, last: str | None) -> tuple[str, ...]:
        """The phases whose output can be compared, in order, up to `last`; all when `last` is None or not one of them."""

    def up_to(self, invocation: Invocation, phase: str) -> Invocation:
        """The same compile, stopped after a phase, with generic output."""

    def footprint_phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        """The phase up to `last` whose output shows best which resources a program uses, if there is one."""

    def footprint(self, printed: Path, backend: str) -> Mapping[str, float]:
        """The resources that a program uses, from its IR after that phase: metrics as in `RunFacts`."""

    def after_passes(self, invocation: Invocation, only: str | None = None, *, generic: bool = True) -> Invocation:
        """The same compile, printing the IR after each pass that changed it. only: the argument of the one pass to print."""


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

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {"position": None}
    JSON_PROPERTIES: ClassVar = ("location",)

    @property
    def location(self) -> str | None:
        """`file:line:column`; None for no position."""
        return str(self.position) if self.position else None


@dataclass(frozen=True, slots=True)
class ProgramDevice:
    """A device of a program: what declares it, None if nothing does, how often the program names it, and where first."""

    name: str
    declared: str | None
    references: int
    position: SourcePosition | None = None

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {"position": None}
    JSON_PROPERTIES: ClassVar = ("location",)

    @property
    def location(self) -> str | None:
        """`file:line:column` of the first reference; None for none."""
        return str(self.position) if self.position else None


@dataclass(frozen=True, slots=True)
class ProgramFindings:
    """All findings of a program, its devices, options that fix findings, and what was not checked."""

    findings: tuple[LintFinding, ...] = ()
    devices: tuple[ProgramDevice, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SolverLimit:
    """How to measure the iterations that a family's affinity solver needs on one version."""

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


class Linter(Protocol):
    """The lint rules of one compiler family."""

    @property
    def rules(self) -> Sequence[LintRule]:
        """All rules, in documentation order."""

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        """Return the backend and the chip that a command line names; None for none or several."""

    def check(self, module: Module, options: Sequence[str], backend: str | None, chip: str | None) -> ProgramFindings:
        """Apply all rules to a module that is compiled with these options."""

    def graph(self, module: Module, options: Sequence[str]) -> str:
        """Return a module's devices and transfers as a Mermaid flowchart."""

    def solver(self, toolchain: Toolchain, module: Module) -> SolverLimit:
        """Return how the affinity solver is limited and measured on this version."""


@dataclass(frozen=True, slots=True)
class OptionCatalog:
    """Which of a compiler's own options are tried, by the beginnings of their names."""

    first: tuple[str, ...]
    """Complete options that are tried before any switch."""
    recomputes: tuple[str, ...]
    """Words in names of options that change the types of computations."""
    backends: Mapping[str, tuple[str, ...]]
    """Backend -> its own options, which are tried only for it, and first."""
    phases: Mapping[str, tuple[str, ...]]
    """Failing phase -> options that affect it, nearest first."""
    code_phase: str
    """The phase of code generation, whose options are tried for unknown phases."""
    code_phase_prefixes: tuple[str, ...]
    """Beginnings of the names of phases that count as code generation."""
    never: tuple[str, ...]
    """Words in names of options that are never tried."""
    only_true: tuple[str, ...]
    """Words in names of options that are off by default, so that only `true` is tried."""

    def is_foreign(self, name: str, backend: str) -> bool:
        """Whether an option belongs to another backend."""
        owners = {owner for owner, prefixes in self.backends.items() if name.startswith(prefixes)}
        return bool(owners) and backend not in owners

    def prefixes(self, phase: str, backend: str) -> tuple[str, ...]:
        """Return the beginnings of the names of options worth trying when a phase fails, nearest first."""
        if phase.startswith(self.code_phase_prefixes) or phase not in self.phases:
            phase = self.code_phase
        own = self.backends.get(backend, ()) if phase == self.code_phase else ()
        return (*own, *self.phases[phase])


@dataclass(frozen=True, slots=True)
class RewriteNames:
    """Names for rewrites: the barrier operation, the transfers between devices, and the affinity attribute."""

    barrier: str
    transfers: frozenset[str]
    affinity: str


@dataclass(frozen=True, slots=True)
class RemedyHints:
    """What one compiler family knows about remedies."""

    options: OptionCatalog
    names: RewriteNames
    devices_named: Callable[[Path], frozenset[str]]
    """Return the devices that a program refers to."""
    declaring: Callable[[Case, Collection[str]], tuple[str, ...] | None]
    """Return the options that declare these devices; None if all are declared or no option can."""
