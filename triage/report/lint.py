"""Report of `triage lint`: a document, JSON and SARIF."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from triage.compilers.analysis import LintFinding, Severity
from triage.lint.check import LintedCase, LintResult
from triage.model.json_form import Json
from triage.report.document import Block, Document, Facts, Inline, Paragraph, Span, Style
from triage.report.elements import below_here, plural

_STYLES: Mapping[Severity, Style] = {Severity.ERROR: "bad", Severity.WARNING: "warning", Severity.ADVICE: "plain"}
_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_FINDINGS = 8  # of one rule on a terminal; JSON has all


def lint_document(result: LintResult) -> Document:
    """Show each case with its findings and suggested flags, then the counts."""
    blocks: list[Block] = []
    for linted in result.cases:
        if linted.findings or linted.notes:
            blocks += [Paragraph([Span(linted.case, "strong"), "  ", _source(linted)]), Facts(_rows(linted))]
    return Document("Lint", [*blocks, Paragraph(_counts(result))])


def lint_sarif(result: LintResult) -> str:
    """Return SARIF 2.1.0, which GitHub and editors show next to the source line.

    Paths below the current folder are relative, as GitHub requires.
    """
    order = {rule.name: index for index, rule in enumerate(result.rules)}
    results = [_sarif_result(linted, finding, order) for linted in result.cases for finding in linted.findings]
    rules = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.summary},
            "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
        }
        for rule in result.rules
    ]
    driver = {"name": "triage lint", "semanticVersion": version("iree-triage"), "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rows(linted: LintedCase) -> list[tuple[str, Inline]]:
    rows: list[tuple[str, Inline]] = []
    counts: Counter[str] = Counter()
    for finding in linted.findings:
        counts[finding.rule] += 1
        if counts[finding.rule] <= _MAX_FINDINGS:
            where = finding.location
            if finding.position and linted.generated:  # it is not in a file of the user
                where = f"{finding.position.line}:{finding.position.column}"
            label = Span(f"[{finding.rule}] ", "dim")
            text = Span(finding.message, _STYLES[finding.severity])
            rows.append((finding.severity.value, [f"{where}: " if where else "", label, text]))
    for rule, count in counts.items():
        if count > _MAX_FINDINGS:
            rows.append(("", Span(f"... and {count - _MAX_FINDINGS} more of {rule}; --format json lists all", "dim")))
    if linted.flags:
        rows.append(("flags", shlex.join(linted.flags)))
    return [*rows, *(("note", note) for note in linted.notes)]


def _source(linted: LintedCase) -> str:
    """Return the file to show for a case: its program, or its recipe when the program is generated below TRIAGE_HOME."""
    if linted.generated:
        return f"{below_here(linted.recipe)} (positions in the generated program)"
    return linted.source


def _counts(result: LintResult) -> str:
    severities = [finding.severity for linted in result.cases for finding in linted.findings]
    parts = []
    for severity in Severity:
        count = severities.count(severity)
        parts.append(f"{count or 'no'} {severity.value}{'' if count == 1 or severity is Severity.ADVICE else 's'}")
    silenced = sum(linted.silenced for linted in result.cases)
    tail = f", {silenced} silenced" if silenced else ""
    return f"{', '.join(parts)} in {plural(len(result.cases), 'case')}{tail}"


def _sarif_result(linted: LintedCase, finding: LintFinding, order: dict[str, int]) -> Json:
    position, message = finding.position, f"{linted.case}: {finding.message}"
    location: Json
    if position is None or linted.generated:  # a generated program is not in the repository
        location = {"artifactLocation": {"uri": _uri(linted.recipe)}, "region": {"startLine": 1}}
        if position:
            message = f"{linted.case}, line {position.line} of the generated program: {finding.message}"
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
