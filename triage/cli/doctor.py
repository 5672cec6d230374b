"""`triage doctor`: check the machine."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption
from triage.cli.screen import Format, show, show_json
from triage.compilers.registry import Families
from triage.execution.machine import Grade, checkup

_STYLES = {Grade.GOOD: "green", Grade.WEAK: "yellow", Grade.BROKEN: "bold red"}


@command
def doctor(output: FormatOption = Format.TEXT) -> Exit:
    """Check this machine: disk, memory, uv, releases, caches. Exit 4 when compiling cannot work."""
    findings = checkup(Families())
    broken = any(finding.grade is Grade.BROKEN for finding in findings)
    if output is Format.JSON:
        rows = [{"check": f.check, "grade": f.grade.value, "found": f.found, "advice": f.advice} for f in findings]
        show_json({"checks": rows, "ok": not broken})
    else:
        table = Table.grid(padding=(0, 2))
        for finding in findings:
            advice = f"  ({finding.advice})" if finding.advice else ""
            table.add_row(Text(finding.grade.value, style=_STYLES[finding.grade]), finding.check, Text(finding.found + advice))
        show([table])
        if not broken:
            typer.echo("\nready")
    return Exit.ENVIRONMENT if broken else Exit.OK
