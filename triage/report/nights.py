"""Reports of `triage nights`: the list of stored nights, and what was removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nights.record import StoredNight
from triage.report.elements import plural
from triage.report.registry import Report
from triage.report.shapes import Shape


@dataclass(frozen=True)
class StoredNightShape(Shape):
    """A stored night. `night` is its number, `cases` counts them by status."""

    night: int
    at: str
    suite: str
    toolchain: Revision
    baseline: Revision
    cases: dict[str, int]
    partial: bool


@dataclass(frozen=True)
class StoredNightsShape(Shape):
    """JSON of `triage nights list`, the oldest night first. `bytes` is the size of the database."""

    nights: list[StoredNightShape]
    bytes: int


@dataclass(frozen=True, slots=True)
class StoredNightsReport(Report):
    """The stored nights."""

    nights: Sequence[StoredNight]
    bytes: int

    def shape(self) -> StoredNightsShape:
        return StoredNightsShape([stored_shape(night) for night in self.nights], self.bytes)

    def blocks(self) -> Iterable[RenderableType]:
        if not self.nights:
            yield Text("no nights yet: `triage nightly` stores each one")
            return
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("night", "began", "suite", "toolchain", "against", "passed", "failed", "untestable", ""):
            table.add_column(name, justify="right" if name in ("passed", "failed", "untestable") else "left")
        for night in self.nights:
            counts = night.counts
            passed, failed = (sum(counts.get(status, 0) for status in group) for group in (PASSING, FAILING))
            table.add_row(
                str(night.number),
                night.at[:16].replace("T", " "),
                night.suite,
                night.toolchain.name,
                night.baseline.name,
                str(passed),
                str(failed),
                str(counts.get(Status.UNTESTABLE, 0)),
                "partial" if night.partial else "",
            )
        yield table
        yield Text(f"{plural(len(self.nights), 'night')}, {self.bytes / 1e6:.1f} MB", style="dim")


def stored_shape(night: StoredNight) -> StoredNightShape:
    """Convert a stored night."""
    return StoredNightShape(
        night=night.number,
        at=night.at,
        suite=night.suite,
        toolchain=night.toolchain,
        baseline=night.baseline,
        cases=dict(night.counts),
        partial=night.partial,
    )


@dataclass(frozen=True)
class PrunedNightsShape(Shape):
    """JSON of `triage nights prune`."""

    removed: list[int]
    kept: int
