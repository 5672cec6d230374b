"""Report of `triage variants`."""

from __future__ import annotations

from triage.remedy.variants import Variant, VariantResult, Variants
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
        rows.append([*values, Span(_text(variant), _STYLES[variant.status])])
    blocks: list[Block] = [Table((*result.keys, "result"), rows), Paragraph(Span(result.sentence, "strong"))]
    if result.failure:
        blocks.append(Paragraph(failure_text(result.failure)))
    return Document("Variants", blocks)


def _text(variant: Variant) -> str:
    why = failure_text(variant.failure, 100) if variant.failure else variant.reason
    return f"{variant.status.value}: {why}" if why else variant.status.value
