"""The port a compiler family implements. Adapters translate; they never run anything on a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

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
