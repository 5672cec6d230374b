"""How a family checks programs before they are compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.fields import UNPRINTED, in_json, key

if TYPE_CHECKING:  # it parses MLIR
    from triage.mlir import SourcePosition


class Severity(StrEnum):
    """How bad a finding is. A program with an error does not compile, a warning is
    probably a mistake, and advice names what has caused failures before.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class LintRule:
    """One check of a program."""

    name: str
    severity: Severity
    """The worst that the rule reports."""
    summary: str
    """What it looks for, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Something that may have a position in the program; a flag has none."""

    position: SourcePosition | None = field(default=None, metadata=UNPRINTED)

    @in_json
    def location(self) -> str | None:
        """`file:line:column`."""
        return str(self.position) if self.position else None


@dataclass(frozen=True, slots=True)
class LintFinding(Located):
    """A finding of one rule."""

    rule: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class ProgramDevice(Located):
    """A device that a program refers to. Its position is the first reference."""

    name: str
    declared: str | None
    """The flag or the operation that declares it."""
    references: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedCase:
    """What the rules found in the program of a case."""

    case: str = ""
    source: str = ""
    """The file that positions refer to: as the user named it, or the generated program.
    """
    recipe: Path | None = field(default=None, metadata=UNPRINTED)
    """The recipe of a generated program."""
    findings: tuple[LintFinding, ...] = field(metadata=UNPRINTED)
    devices: tuple[ProgramDevice, ...] = field(metadata=UNPRINTED)
    flags: tuple[str, ...] = field(metadata=key("suggested_flags"))
    """Options that fix findings."""
    graph: str = field(metadata=UNPRINTED)
    """The program as a Mermaid flowchart."""
    longest_chain: int = field(metadata=UNPRINTED)
    """How many in-place operations follow each other."""
    notes: tuple[str, ...] = ()
    """Sentences about what was not checked."""
