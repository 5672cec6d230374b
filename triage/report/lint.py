"""Report of `triage lint`: a document, JSON and SARIF."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from triage.compilers.linter import LintFinding, Severity
from triage.lint.check import LintedCase, LintResult
from triage.model.json_form import Json
from triage.report.document import Block, Document, Fact, Facts, Paragraph, Span
from triage.report.elements import STYLES, plural
from triage.toolchains.home import below_here

_SARIF_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.ADVICE: "note",
}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_FINDINGS = 8  # of one rule on a terminal; JSON has all


def lint_document(result: LintResult) -> Document:
    """Show each case with its findings and suggested flags, then the counts."""
    blocks: list[Block] = []
    for linted in result.cases:
        if linted.findings or linted.notes:
            source = linted.source
            if linted.generated:
                recipe = below_here(linted.recipe)
                source = f"{recipe} (positions in the generated program)"
            title = Paragraph([Span(linted.case, "strong"), "  ", source])
            blocks += [title, Facts(list(_rows(linted)))]
    severities = (one.severity for linted in result.cases for one in linted.findings)
    counts = Counter(severities)
    parts = []
    for kind in Severity:
        ending = "" if counts[kind] == 1 or kind is Severity.ADVICE else "s"
        parts.append(f"{counts[kind] or 'no'} {kind}{ending}")
    total = f"{', '.join(parts)} in {plural(len(result.cases), 'case')}"
    silenced = sum(linted.silenced for linted in result.cases)
    if silenced:
        total += f", {silenced} silenced"
    return Document("Lint", [*blocks, Paragraph(total)])


def _rows(linted: LintedCase) -> Iterator[Fact]:
    """Yield the findings, those of one rule up to a number, then flags and notes."""
    counts: Counter[str] = Counter()
    for finding in linted.findings:
        counts[finding.rule] += 1
        if counts[finding.rule] > _MAX_FINDINGS:
            continue
        position, where = finding.position, finding.location
        if position and linted.generated:
            where = f"{position.line}:{position.column}"
        label = Span(f"[{finding.rule}] ", "dim")
        text = Span(finding.message, STYLES[finding.severity])
        yield finding.severity.value, [f"{where}: " if where else "", label, text]
    for rule, count in counts.items():
        if count > _MAX_FINDINGS:
            more = f"... and {count - _MAX_FINDINGS} more of {rule}"
            yield "", Span(f"{more}; --format json lists all", "dim")
    if linted.flags:
        yield "flags", shlex.join(linted.flags)
    for note in linted.notes:
        yield "note", note


def lint_sarif(result: LintResult) -> str:
    """Return SARIF 2.1.0, which GitHub and editors show next to the source line.

    Paths below the current folder are relative, as GitHub requires.
    """
    order = [rule.name for rule in result.rules]
    rules = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.summary},
            "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
        }
        for rule in result.rules
    ]
    results = []
    for linted in result.cases:
        for finding in linted.findings:
            message, location = _place(linted, finding)
            results.append(
                {
                    "ruleId": finding.rule,
                    "ruleIndex": order.index(finding.rule),
                    "level": _SARIF_LEVELS[finding.severity],
                    "message": {"text": message},
                    "locations": [{"physicalLocation": location}],
                }
            )
    driver = {
        "name": "triage lint",
        "semanticVersion": version("iree-triage"),
        "rules": rules,
    }
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps(
        {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2
    )


def _place(linted: LintedCase, finding: LintFinding) -> tuple[str, Json]:
    """Return the message and the place of a finding; that of a generated program is its
    recipe.
    """
    position = finding.position
    path = linted.recipe
    region = {"startLine": 1}
    where = ""
    if position and linted.generated:
        where = f", line {position.line} of the generated program"
    elif position:
        path = Path(position.file)
        region = {
            "startLine": max(1, position.line),
            "startColumn": max(1, position.column),
        }
    shown = below_here(path)
    uri = shown.as_uri() if shown.is_absolute() else quote(shown.as_posix())
    return f"{linted.case}{where}: {finding.message}", {
        "artifactLocation": {"uri": uri},
        "region": region,
    }
