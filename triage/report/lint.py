"""Report of `triage lint`: text, JSON and SARIF."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.compilers.analysis import LintFinding, LintRule, Severity
from triage.lint.check import LintedCase
from triage.mlir import SourcePosition
from triage.report.elements import below_here, plural
from triage.report.registry import SarifReport
from triage.report.shapes import Json, Shape

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_FINDINGS = 8  # of one rule on a terminal; JSON has all


@dataclass(frozen=True)
class FindingShape(Shape):
    """A finding; `location` is `file:line:column`."""

    rule: str
    severity: str
    message: str
    location: str | None
    case: str


@dataclass(frozen=True)
class DeviceShape(Shape):
    """A device. `declared`: the option or attribute that declares it; `location`: its first reference."""

    name: str
    declared: str | None
    references: int
    location: str | None
    case: str


@dataclass(frozen=True)
class LintedCaseShape(Shape):
    """A case that was linted. `silenced`: number of findings that comments silence."""

    case: str
    source: str
    suggested_flags: list[str]
    silenced: int
    notes: list[str]


@dataclass(frozen=True)
class LintShape(Shape):
    """JSON of `triage lint`."""

    findings: list[FindingShape]
    devices: list[DeviceShape]
    suggested_flags: list[str]
    cases: list[LintedCaseShape]


@dataclass(frozen=True, slots=True)
class LintReport(SarifReport):
    """The findings of all cases, and the rules of their families."""

    cases: Sequence[LintedCase]
    rules: Sequence[LintRule]

    def shape(self) -> LintShape:
        return LintShape(
            [
                FindingShape(
                    finding.rule, finding.severity.value, finding.message, position_text(finding.position), linted.case.name
                )
                for linted in self.cases
                for finding in linted.findings
            ],
            [
                DeviceShape(device.name, device.declared, device.references, position_text(device.position), linted.case.name)
                for linted in self.cases
                for device in linted.devices
            ],
            list(dict.fromkeys(flag for linted in self.cases for flag in linted.flags)),
            [
                LintedCaseShape(linted.case.name, linted.source, list(linted.flags), linted.silenced, list(linted.notes))
                for linted in self.cases
            ],
        )

    def blocks(self) -> Iterable[RenderableType]:
        """Show each case with its findings and suggested flags, then the counts."""
        for linted in self.cases:
            if not linted.findings and not linted.notes:
                continue
            yield Text.assemble((linted.case.name, "bold"), "  ", _source(linted))
            yield Padding(_rows(linted), (0, 0, 0, 2))
        yield _counts(self.cases)

    def sarif(self) -> Mapping[str, Any]:
        """Return one run with all rules. Paths below the current folder are relative, as GitHub requires."""
        order = {rule.name: index for index, rule in enumerate(self.rules)}
        results = [_sarif_result(linted, finding, order) for linted in self.cases for finding in linted.findings]
        rules = [
            {
                "id": rule.name,
                "shortDescription": {"text": rule.summary},
                "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
            }
            for rule in self.rules
        ]
        driver = {"name": "triage lint", "semanticVersion": version("iree-triage"), "rules": rules}
        return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def position_text(position: SourcePosition | None) -> str | None:
    """Return `file:line:column`; None for no position."""
    return f"{position.file}:{position.line}:{position.column}" if position else None


def _rows(linted: LintedCase) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    counts: dict[str, int] = {}
    for finding in linted.findings:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
        if counts[finding.rule] <= _MAX_FINDINGS:
            severity = Text(finding.severity.value, style=_STYLES[finding.severity])
            where = position_text(finding.position)
            if finding.position and linted.generated:  # it is not in a file of the user
                where = f"{finding.position.line}:{finding.position.column}"
            label = (f"[{finding.rule}] ", "dim")
            table.add_row(severity, Text.assemble(f"{where}: " if where else "", label, finding.message))
    for rule, count in counts.items():
        if count > _MAX_FINDINGS:
            table.add_row("", Text(f"... and {count - _MAX_FINDINGS} more of {rule}; --format json lists all", style="dim"))
    if linted.flags:
        table.add_row("flags", Text(shlex.join(linted.flags)))
    for note in linted.notes:
        table.add_row("note", Text(note, style="dim"))
    return table


def _source(linted: LintedCase) -> str:
    """Return the file to show for a case: its program, or its recipe when the program is generated below TRIAGE_HOME."""
    if linted.generated:
        return f"{below_here(linted.case.source)} (positions in the generated program)"
    return linted.source


def _counts(cases: Sequence[LintedCase]) -> Text:
    severities = [finding.severity for linted in cases for finding in linted.findings]
    parts = []
    for severity in Severity:
        count = severities.count(severity)
        parts.append(f"{count or 'no'} {severity.value}{'' if count == 1 or severity is Severity.ADVICE else 's'}")
    silenced = sum(linted.silenced for linted in cases)
    tail = f", {silenced} silenced" if silenced else ""
    return Text(f"{', '.join(parts)} in {plural(len(cases), 'case')}{tail}")


def _sarif_result(linted: LintedCase, finding: LintFinding, order: dict[str, int]) -> Json:
    position, message = finding.position, f"{linted.case.name}: {finding.message}"
    location: Json
    if position is None or linted.generated:  # a generated program is not in the repository
        location = {"artifactLocation": {"uri": _uri(linted.case.source)}, "region": {"startLine": 1}}
        if position:
            message = f"{linted.case.name}, line {position.line} of the generated program: {finding.message}"
    else:
        region = {"startLine": max(1, position.line), "startColumn": max(1, position.column)}
        location = {"artifactLocation": {"uri": _uri(Path(position.file))}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": order[finding.rule],
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": message},
        "locations": [{"physicalLocation": location}],
    }


def _uri(path: Path) -> str:
    shown = below_here(path)
    return shown.as_uri() if shown.is_absolute() else quote(shown.as_posix())
