"""Report of `triage suspects`."""

from __future__ import annotations

from triage.bisect.result import RankedChange, RankedChanges
from triage.report.bisection import branch_facts
from triage.report.document import Block, Document, Facts, Inline, Paragraph, Span, Table
from triage.report.elements import failure_text, plural


def suspects_document(result: RankedChanges) -> Document:
    """Show changes ranked by how suspicious the failure makes them."""
    blocks: list[Block] = []
    if result.failure:
        blocks.append(Paragraph(Span(failure_text(result.failure, 400), "strong")))
    if result.evidence:
        blocks.append(Paragraph(result.evidence))
    blocks.append(Table(("", "commit", "date", "change"), [_row(change) for change in result.suspects]))
    if result.branches:
        blocks.append(Facts(branch_facts(result.branches)))
    count = plural(result.commits, "commit")
    blocks.append(Paragraph(f"{len(result.suspects)} of {count}, ranked by what they change; nothing was built"))
    return Document("Suspects", blocks)


def _row(change: RankedChange) -> list[Inline]:
    words: list[str | Span] = [change.subject or ""]
    if change.branch:
        words.append(f"\n{change.branch}")
    if change.reasons:
        words.append(Span(f"\n{'; '.join(change.reasons)}", "dim"))
    if change.with_commits:
        words.append(Span(f"\nthe same change: {', '.join(sha[:10] for sha in change.with_commits)}", "dim"))
    return [f"{change.probability:.1%}", Span(change.name, "strong", change.url), change.date or "", words]
