"""Report of `triage expect update`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triage.model.revision import Revision
from triage.recipes.observed import ExpectationChange, UpdatedFile
from triage.report.document import Block, Bullets, Code, Document, Heading, Paragraph, Span
from triage.report.elements import plural
from triage.report.registry import DocumentReport
from triage.report.shapes import Shape


@dataclass(frozen=True)
class UpdatedFileShape(Shape):
    """A file with known failures, and its changes as a unified diff."""

    path: str
    changes: Sequence[ExpectationChange]
    diff: str


@dataclass(frozen=True)
class LeftCaseShape(Shape):
    """A case whose known failures stay as they are, and why."""

    case: str
    reason: str


@dataclass(frozen=True)
class UpdateShape(Shape):
    """JSON of `triage expect update`. written: false with `--dry-run`."""

    toolchain: Revision
    files: list[UpdatedFileShape]
    left: list[LeftCaseShape]
    written: bool


@dataclass(frozen=True, slots=True)
class UpdateReport(DocumentReport):
    """Files with known failures as a toolchain's results change them. doubtful: cases that decide nothing, with the reason."""

    toolchain: Revision
    files: Sequence[UpdatedFile]
    doubtful: Sequence[tuple[str, str]]
    dry_run: bool

    @property
    def left(self) -> list[tuple[str, str]]:
        """Cases that stay as they are, with the reason."""
        return [*self.doubtful, *(entry for file in self.files for entry in file.left)]

    def shape(self) -> UpdateShape:
        files = [UpdatedFileShape(str(file.path), file.changes, "\n".join(file.diff())) for file in self.files]
        return UpdateShape(self.toolchain, files, [LeftCaseShape(*entry) for entry in self.left], not self.dry_run)

    def document(self) -> Document:
        """Show the diff or each change, then the cases that were left, then a count."""
        blocks: list[Block] = []
        for file in self.files:
            if self.dry_run:
                blocks.append(Code("\n".join(file.diff()), "diff"))
            elif file.changes:
                blocks.append(Heading(str(file.path)))
                blocks.append(
                    Bullets(
                        [f"{each.case}: {each.before or 'no entry'} -> {each.after or 'no entry'}" for each in file.changes]
                    )
                )
        blocks += [Paragraph(Span(f"left as it is: {case}: {reason}", "warning")) for case, reason in self.left]
        changed = sum(len(file.changes) for file in self.files)
        verb = "would change" if self.dry_run else "changed"
        blocks.append(Paragraph(f"{plural(changed, 'known failure')} {verb} by {self.toolchain.name}"))
        return Document("Known failures", blocks)
