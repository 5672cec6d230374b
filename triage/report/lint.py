"""Report of `triage lint`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from triage.compilers.linter import Severity
from triage.lint.check import LintedCase, LintResult
from triage.report.document import Block, Document, Fact, Facts, Paragraph, Span
from triage.report.elements import STYLES, plural
from triage.toolchains.home import below_here

_MAX_FINDINGS = 8  # of one rule on a terminal; JSON has all


def lint_document(result: LintResult) -> Document:
    """Show each case with its findings and suggested flags, then the counts."""
    blocks: list[Block] = []
    for linted in result.cases:
        if linted.findings or linted.notes:
            source = linted.source
            if linted.recipe:
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
    return Document("Lint", [*blocks, Paragraph(total)])


def _rows(linted: LintedCase) -> Iterator[Fact]:
    """Yield the findings, those of one rule up to a number, then flags and notes."""
    counts: Counter[str] = Counter()
    for finding in linted.findings:
        counts[finding.rule] += 1
        if counts[finding.rule] > _MAX_FINDINGS:
            continue
        where = finding.location or ""
        if linted.recipe:
            where = where.removeprefix(f"{linted.source}:")
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
