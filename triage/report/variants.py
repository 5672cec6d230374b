"""Report of `triage variants`."""

from __future__ import annotations

from triage.remedy.variants import VariantResult, Variants
from triage.report.document import Block, Document, Inline, Paragraph, Span, Style, Table
from triage.report.elements import failure_text

_STYLES: dict[VariantResult, Style] = {
    VariantResult.FAILS: "bad",
    VariantResult.COMPILES: "good",
    VariantResult.OTHER: "bad",
    VariantResult.UNTESTABLE: "warning",
}


def variants_document(result: Variants) -> Document:
    """Show the compared variants of a case."""
    rows: list[list[Inline]] = []
    for variant in result.results:
        values: list[Inline] = [variant.values.get(key, "") for key in result.keys]
        why = variant.failure.failure_class if variant.failure else variant.reason
        text = f"{variant.status.value}: {why}" if why else variant.status.value
        rows.append([*values, Span(text, _STYLES[variant.status])])
    blocks: list[Block] = [Table((*result.keys, "result"), rows), Paragraph(Span(result.sentence, "strong"))]
    if result.failure:
        blocks.append(Paragraph(failure_text(result.failure)))
    return Document("Variants", blocks)
