"""`triage doctor`: check the machine."""

from __future__ import annotations

from typing import Annotated

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.compilers.registry import Families
from triage.execution.machine import Grade, checkup
from triage.report.housekeeping import DoctorShape, HousekeepingReport
from triage.report.registry import write_report

_STYLES = {Grade.GOOD: "green", Grade.WEAK: "yellow", Grade.BROKEN: "bold red"}


@command
def doctor(output: Annotated[str, format_option(HousekeepingReport)] = "text") -> Exit:
    """Check this machine: disk, memory, uv, releases, caches. Exit 4 when compiling cannot work."""
    findings = checkup(Families())
    broken = any(finding.grade is Grade.BROKEN for finding in findings)
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        advice = f"  ({finding.advice})" if finding.advice else ""
        table.add_row(Text(finding.grade.value, style=_STYLES[finding.grade]), finding.check, Text(finding.found + advice))
    parts: list[RenderableType] = [table] if broken else [table, Text("\nready")]
    write_report(HousekeepingReport(DoctorShape(findings, not broken), parts), output)
    return Exit.ENVIRONMENT if broken else Exit.OK
