"""Report of `triage remedy`."""

from __future__ import annotations

from collections.abc import Sequence

from triage.remedy.result import COST_METRICS, Remedies, Remedy
from triage.report.document import Block, Bullets, Document, Facts, Inline, Paragraph, Span, Table
from triage.report.elements import failure_text, plural

_MOST_EXPLAINED = 8


def remedy_document(result: Remedies) -> Document:
    """Show each remedy in a row with its cost, or why there is nothing to remedy."""
    name = Span(result.case, "strong")
    if result.failure is None:
        return Document("Remedies", [Paragraph([name, ": ", Span("nothing to remedy", "warning"), f", {result.reason}"])])
    labels = [label for label, _ in COST_METRICS.values()]
    rows = [_row(remedy, list(COST_METRICS)) for remedy in result.remedies]
    count = plural(len(rows), "remedy", "remedies") if rows else "only an upgrade helps" if result.upgrade else "no remedy"
    if result.upgrade:
        upgrade = Span(f"upgrade to {result.upgrade.name}", "strong")
        rows.insert(0, [upgrade, *[""] * (len(labels) + 2), result.upgrade.name, ""])
    blocks: list[Block] = [
        Paragraph([name, f" on {result.toolchain.name}: ", Span(count, "good" if rows else "warning")]),
        Facts([("failure", failure_text(result.failure, 400))]),
    ]
    if rows:
        blocks.append(Table(("change", "compile time", *labels, "time ratio", "holds on", "breaks"), rows))
    if result.remedies:
        explained = [remedy for remedy in result.remedies[:_MOST_EXPLAINED] if remedy.explanation]
        blocks.append(Bullets([[Span(remedy.text, "strong"), f": {remedy.explanation}"] for remedy in explained]))
    else:
        blocks.append(Paragraph(result.reason or ""))
        leads = [f"{one.change} leads to {failure_text(one.failure)}" for one in result.promising]
        blocks += [Bullets(leads[:_MOST_EXPLAINED])] if leads else []
    blocks.append(Paragraph(Span(f"{plural(result.tried, 'candidate')} tried", "dim")))
    blocks += [Paragraph(Span(note, "warning")) for note in result.notes]
    return Document("Remedies", blocks)


def _row(remedy: Remedy, metrics: Sequence[str]) -> list[Inline]:
    cost = remedy.cost or {}
    plain = next((check for check in remedy.checks if check.cost_without), None)
    cells: list[Inline] = [Span(remedy.text, "strong"), f"{cost.get('cpu_seconds', 0):.1f} s"]
    for name in metrics:
        before = (plain.cost_without or {}).get(name) if plain else None
        now = f"{cost[name]:.0f}{COST_METRICS[name][1]}" if name in cost else ""
        changed = plain and before is not None and now and before != cost[name]
        cells.append(f"{now} ({before:.0f} on {plain.revision.name} without)" if changed and plain else now)
    ratio = [cost[f"time_ratio{end}"] for end in ("", "_low", "_high") if f"time_ratio{end}" in cost]
    cells.append("{:.2f} [{:.2f}, {:.2f}]".format(*ratio) if len(ratio) == 3 else "")
    cells.append(", ".join(revision.name for revision in remedy.verified_on))
    return [*cells, Span(", ".join(revision.name for revision in remedy.breaks), "bad")]
