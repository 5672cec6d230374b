"""Report of `triage expect update`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from triage.model.revision import Revision
from triage.recipes.observed import ExpectationChange, UpdatedFile
from triage.report.elements import plural
from triage.report.registry import Report
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
class UpdateReport(Report):
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

    def blocks(self) -> Iterable[RenderableType]:
        """Show the diff or each change, then the cases that were left, then a count."""
        for file in self.files:
            if self.dry_run:
                yield from (Text(line, style=_STYLES.get(line[:1], "")) for line in file.diff())
            elif file.changes:
                yield Text(str(file.path), style="underline")
                yield from (
                    Text(f"  {change.case}: {change.before or 'no entry'} -> {change.after or 'no entry'}")
                    for change in file.changes
                )
        yield from (Text(f"left as it is: {case}: {reason}", style="yellow") for case, reason in self.left)
        changed = sum(len(file.changes) for file in self.files)
        verb = "would change" if self.dry_run else "changed"
        yield Text(f"{plural(changed, 'known failure')} {verb} by {self.toolchain.name}")


_STYLES = {"+": "green", "-": "red", "@": "cyan"}
