"""Report of `triage expect update`."""

from __future__ import annotations

from triage.recipes.expectations import ExpectationUpdate
from triage.report.document import Block, Bullets, Code, Document, Heading, Paragraph, Span
from triage.report.elements import plural


def update_document(result: ExpectationUpdate) -> Document:
    """Show the diff or each change, then the cases that were left, then a count."""
    blocks: list[Block] = []
    for file in result.files:
        if not result.written:
            blocks.append(Code(file.diff, "diff"))
        elif file.changes:
            changes = [f"{each.case}: {each.before or 'no entry'} -> {each.after or 'no entry'}" for each in file.changes]
            blocks += [Heading(str(file.path)), Bullets(changes)]
    blocks += [Paragraph(Span(f"left as it is: {one.case}: {one.reason}", "warning")) for one in result.left]
    changed = sum(len(file.changes) for file in result.files)
    verb = "changed" if result.written else "would change"
    blocks.append(Paragraph(f"{plural(changed, 'known failure')} {verb} by {result.toolchain.name}"))
    return Document("Known failures", blocks)
