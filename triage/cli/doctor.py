"""`triage doctor`: check the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.compilers.registry import Families
from triage.execution.machine import Grade, MachineCheck, checkup
from triage.report.document import Paragraph, Span, Style, Table
from triage.report.formats import write_answer

_STYLES: dict[Grade, Style] = {Grade.GOOD: "good", Grade.WEAK: "warning", Grade.BROKEN: "bad"}


@dataclass(frozen=True)
class Checkup:
    """What `triage doctor` found."""

    checks: list[MachineCheck]
    ok: bool
    """Whether compiling can work."""


@command
def doctor(output: Annotated[str, format_option()] = "text") -> Exit:
    """Check this machine: disk, memory, uv, releases, caches. Exit 4 when compiling cannot work."""
    checks = checkup(Families())
    broken = any(check.grade is Grade.BROKEN for check in checks)
    rows = []
    for check in checks:
        advice = f"  ({check.advice})" if check.advice else ""
        rows.append((Span(check.grade.value, _STYLES[check.grade]), check.check, check.found + advice))
    verdict = Paragraph(Span("not ready", "bad") if broken else "ready")
    write_answer(output, Checkup(checks, not broken), [Table(["", "", ""], rows), verdict], "This machine")
    return Exit.ENVIRONMENT if broken else Exit.OK
