"""The port a compiler family implements. Adapters translate; they never run anything on a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from triage.compilers.vocabulary import Vocabulary
from triage.model.case import Case
from triage.model.outcome import Untestable
from triage.model.revision import Capabilities, Toolchain


@dataclass(frozen=True, slots=True)
class Description:
    """What an installed compiler tells of itself. version: PEP 440; commit: full sha; date: `YYYY-MM-DD`."""

    version: str | None
    commit: str | None
    date: str | None
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class Invocation:
    """What to run. `options`: all arguments but program, input and output; they enter the evidence key.
    `printing`: options that only change what is printed, and enter no key. `env`: variables beside the inherited ones.
    """

    options: tuple[str, ...]
    printing: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def argv(self, program: Path, source: Path, output: Path) -> list[str]:
        """The command line, program first."""
        return [str(program), *self.options, *self.printing, str(source), "-o", str(output)]


@dataclass(frozen=True, slots=True)
class MlirTools:
    """What a toolchain of an MLIR compiler has for programs in between. optimizer: its `opt` program, which parses and
    prints and runs passes; python_root, package: where its Python bindings are imported from (`package.ir`).
    """

    optimizer: Path
    python_root: Path
    package: str


class Ir(Protocol):
    """How a family's IR is made to be printed."""

    @property
    def words(self) -> Vocabulary:
        """What its operations, types and passes are called."""

    def phases(self, toolchain: Toolchain, last: str | None) -> tuple[str, ...]:
        """The phases whose output can be compared, in order, up to `last`; all where it is None or none of them."""

    def up_to(self, invocation: Invocation, phase: str) -> Invocation:
        """The same compile, ended after a phase, its output in generic form."""

    def after_passes(self, invocation: Invocation, only: str | None = None, *, generic: bool = True) -> Invocation:
        """The same compile, printing the IR after each pass that changed it; `only`: after those with this argument."""


class Compiler(Protocol):
    """One compiler family."""

    name: str
    distribution: str
    where: str  # one sentence: which folders `locate` understands

    def locate(self, root: Path) -> Path | None:
        """The native binary below an installation, a build tree or a virtual environment; None when there is none."""

    def essence(self, program: Path) -> tuple[Path, ...]:
        """The files whose bytes are the compiler: the binary and the libraries that hold its code."""

    def describe(self, program: Path) -> Description:
        """Ask the binary. EnvironmentFailure when it does not run."""

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        """The options for this case on this version, or why there can be none."""

    def naming_the_pass(self, invocation: Invocation, *, crashed: bool) -> Invocation:
        """The same compile, printing which pass failed; `crashed`: the one before ended by a signal."""

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools | None:
        """The toolchain's own MLIR tools; None where the family or the installation has none."""

    def ir(self) -> Ir | None:
        """How the family's IR is printed; None where it cannot be."""
