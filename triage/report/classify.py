"""Report of `triage classify`."""

from __future__ import annotations

from triage.classify import ClassifiedLogs
from triage.report.document import Block, Document, Heading
from triage.report.elements import failure_blocks, plural


def classify_document(result: ClassifiedLogs) -> Document:
    """Show each failure of each log with its line and how often it occurs."""
    blocks: list[Block] = []
    for log in result.logs:
        blocks.append(Heading(f"{log.log}: {plural(len(log.failures), 'failure') if log.failures else 'no failures'}"))
        for failure in log.failures:
            times = f", {failure.count} times" if failure.count > 1 else ""
            blocks += failure_blocks(failure, place=f"line {failure.line}{times}")
    return Document("Failures", blocks)
