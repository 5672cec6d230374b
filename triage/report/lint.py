"""What linting found: on a terminal and as JSON. Renderables only; nothing is printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.lint.finding import Device, Linted, LintFinding, Severity
from triage.mlir import SourcePosition

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
_SHOWN = 8  # findings of one rule; what repeats more often is said in JSON


def lint_json(answers: Sequence[Linted]) -> dict[str, Any]:
    """The answer of `triage lint`."""
    return {
        "findings": [_finding_json(one, finding) for one in answers for finding in one.findings],
        "devices": [_device_json(one, device) for one in answers for device in one.devices],
        "suggested_flags": list(dict.fromkeys(flag for one in answers for flag in one.flags)),
        "cases": [
            {
                "case": one.case.name,
                "source": one.source,
                "suggested_flags": list(one.flags),
                "silenced": one.silenced,
                "notes": list(one.notes),
            }
            for one in answers
        ],
    }


def lint_blocks(answers: Sequence[Linted]) -> Iterable[RenderableType]:
    """Each case with its findings, the worst first, and the flags that would help; then the count."""
    for one in answers:
        if not one.findings and not one.notes:
            continue
        yield Text.assemble((one.case.name, "bold"), "  ", one.source if one.source != one.case.name else "")
        yield Padding(_rows(one), (0, 0, 0, 2))
    yield _count(answers)


def place_text(place: SourcePosition | None) -> str | None:
    """`file:line:column`; None for no place."""
    return f"{place.file}:{place.line}:{place.column}" if place else None


def _rows(answer: Linted) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    shown: dict[str, int] = {}
    for finding in answer.findings:
        shown[finding.rule] = shown.get(finding.rule, 0) + 1
        if shown[finding.rule] <= _SHOWN:
            severity = Text(finding.severity.value, style=_STYLES[finding.severity])
            where = f"{_where(answer, finding.place)}: " if finding.place else ""
            table.add_row(severity, Text.assemble(where, (f"[{finding.rule}] ", "dim"), finding.message))
    for rule, count in shown.items():
        if count > _SHOWN:
            table.add_row("", Text(f"... and {count - _SHOWN} more of {rule}; --format json has them all", style="dim"))
    if answer.flags:
        table.add_row("flags", Text(shlex.join(answer.flags)))
    for note in answer.notes:
        table.add_row("note", Text(note, style="dim"))
    return table


def _where(answer: Linted, place: SourcePosition) -> str:
    """A generated program stands somewhere in a cache: its path is told once, above."""
    return f"{place.line}:{place.column}" if answer.generated else place_text(place) or ""


def _count(answers: Sequence[Linted]) -> Text:
    found = [finding.severity for one in answers for finding in one.findings]
    parts = [_plural(found.count(severity), severity) for severity in Severity]
    silenced = sum(one.silenced for one in answers)
    tail = f", {silenced} silenced" if silenced else ""
    return Text(f"{', '.join(parts)} in {len(answers)} case{'' if len(answers) == 1 else 's'}{tail}")


def _plural(count: int, severity: Severity) -> str:
    several = "" if count == 1 or severity is Severity.ADVICE else "s"
    return f"{count or 'no'} {severity.value}{several or ('s' if not count and severity is not Severity.ADVICE else '')}"


def _finding_json(answer: Linted, finding: LintFinding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "location": place_text(finding.place),
        "case": answer.case.name,
    }


def _device_json(answer: Linted, device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "declared": device.declared,
        "references": device.references,
        "location": place_text(device.place),
        "case": answer.case.name,
    }
