"""Report of `triage variants`."""

from __future__ import annotations

from dataclasses import dataclass

from triage.remedy.variants import Variant, VariantResult, Variants
from triage.report.document import Block, Document, Inline, Paragraph, Span, Style, Table
from triage.report.elements import failure_text
from triage.report.registry import DocumentReport

_STYLES: dict[VariantResult, Style] = {
    VariantResult.FAILS: "bad",
    VariantResult.COMPILES: "good",
    VariantResult.OTHER: "bad",
    VariantResult.UNTESTABLE: "warning",
}


@dataclass(frozen=True, slots=True)
class VariantsReport(DocumentReport):
    """The compared variants of a case."""

    result: Variants

    def document(self) -> Document:
        rows: list[list[Inline]] = []
        for variant in self.result.results:
            values: list[Inline] = [variant.values.get(key, "") for key in self.result.keys]
            rows.append([*values, Span(_text(variant), _STYLES[variant.status])])
        blocks: list[Block] = [
            Table((*self.result.keys, "result"), rows),
            Paragraph(Span(self.result.sentence, "strong")),
        ]
        if self.result.failure:
            blocks.append(Paragraph(failure_text(self.result.failure)))
        return Document("Variants", blocks)


def _text(variant: Variant) -> str:
    why = failure_text(variant.failure, 100) if variant.failure else variant.reason
    return f"{variant.status.value}: {why}" if why else variant.status.value
