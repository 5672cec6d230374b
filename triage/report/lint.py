"""Report of `triage lint`: a document, JSON and SARIF."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from triage.compilers.linter import LintFinding, Severity
from triage.lint.check import LintedCase, LintResult
from triage.model.json_form import Json
from triage.report.document import Block, Document, Facts, Inline, Paragraph, Span
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
            if linted.generated:
                source = (
                    f"{below_here(linted.recipe)} (positions in the generated program)"
                )
            else:
                source = linted.source
            blocks += [
                Paragraph([Span(linted.case, "strong"), "  ", source]),
                Facts(_rows(linted)),
            ]
    counts = Counter(
        finding.severity for linted in result.cases for finding in linted.findings
    )
    parts = [
        (
            f"{counts[kind] or 'no'} {kind}"
            f"{'' if counts[kind] == 1 or kind is Severity.ADVICE else 's'}"
        )
        for kind in Severity
    ]
    silenced = sum(linted.silenced for linted in result.cases)
    if silenced:
        tail = f", {silenced} silenced"
    else:
        tail = ""
    return Document(
        "Lint",
        [
            *blocks,
            Paragraph(
                f"{', '.join(parts)} in {plural(len(result.cases), 'case')}{tail}"
            ),
        ],
    )


def _rows(linted: LintedCase) -> list[tuple[str, Inline]]:
    rows: list[tuple[str, Inline]] = []
    counts: Counter[str] = Counter()
    for finding in linted.findings:
        counts[finding.rule] += 1
        if counts[finding.rule] <= _MAX_FINDINGS:
            position = finding.position
            where = finding.location
            if position and linted.generated:
                where = f"{position.line}:{position.column}"
            label = Span(f"[{finding.rule}] ", "dim")
            text = Span(finding.message, STYLES[finding.severity])
            rows.append(
                (finding.severity.value, [f"{where}: " if where else "", label, text])
            )
    for rule, count in counts.items():
        if count > _MAX_FINDINGS:
            rows.append(
                (
                    "",
                    Span(
                        (
                            f"... and {count - _MAX_FINDINGS} more of {rule}; "
                            "--format json lists all"
                        ),
                        "dim",
                    ),
                )
            )
    flags: list[tuple[str, Inline]]
    if linted.flags:
        flags = [("flags", shlex.join(linted.flags))]
    else:
        flags = []
    return [*rows, *flags, *(("note", note) for note in linted.notes)]


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
            level, index = _SARIF_LEVELS[finding.severity], order.index(finding.rule)
            places = [{"physicalLocation": location}]
            text = {"text": message}
            results.append(
                {
                    "ruleId": finding.rule,
                    "ruleIndex": index,
                    "level": level,
                    "message": text,
                    "locations": places,
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
    if shown.is_absolute():
        uri = shown.as_uri()
    else:
        uri = quote(shown.as_posix())
    return f"{linted.case}{where}: {finding.message}", {
        "artifactLocation": {"uri": uri},
        "region": region,
    }
