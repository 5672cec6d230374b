"""What linting finds: a rule, how bad it is, why, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from triage.lint.program import Program
from triage.mlir import SourcePosition
from triage.model.case import Case


class Severity(StrEnum):
    """error: it will not compile; warning: it is hardly what was meant; advice: it has gone wrong before."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing found. place: None where it is no line of the program, such as a flag."""

    rule: str
    severity: Severity
    message: str
    place: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class LintRule:
    """severity: the worst it finds; summary: what it finds, in one sentence that is its documentation as well; check: None
    where only compiling tells.
    """

    name: str
    severity: Severity
    summary: str
    check: Callable[[Program], Iterator[LintFinding]] | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the program. declared: the option or the module's own words that declare it, None without any;
    references: how often the program names it; place: the first time.
    """

    name: str
    declared: str | None
    references: int
    place: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class Linted:
    """The answer for one case. source: the file the places are in, as the user named it, or as it was made for them;
    silenced: findings that comments took away; flags: options that would help; notes: what could not be looked at.
    """

    case: Case
    source: str
    generated: bool
    findings: tuple[LintFinding, ...]
    devices: tuple[Device, ...] = ()
    flags: tuple[str, ...] = ()
    silenced: int = 0
    notes: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether an error was found."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)
