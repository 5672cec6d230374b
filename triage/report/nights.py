"""Reports of `triage nights`: the list of stored nights, and what was removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.report.elements import plural
from triage.report.registry import Report
from triage.report.shapes import Shape


@dataclass(frozen=True)
class StoredNight(Shape):
    """A stored night. `night` is its number, `cases` counts them by status."""

    night: int
    at: str
    suites: list[str]
    toolchain: Revision
    baseline: Revision
    cases: dict[str, int]
    partial: bool


@dataclass(frozen=True)
class StoredNights(Shape):
    """JSON of `triage nights list`, the oldest night first."""

    nights: list[StoredNight]
    bytes: int


@dataclass(frozen=True, slots=True)
class StoredNightsReport(Report):
    """The stored nights. bytes: that they take."""

    nights: Sequence[tuple[int, Night]]
    bytes: int

    def shape(self) -> StoredNights:
        return StoredNights([_stored(number, night) for number, night in self.nights], self.bytes)

    def blocks(self) -> Iterable[RenderableType]:
        if not self.nights:
            yield Text("no nights yet: `triage nightly` stores each one")
            return
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("night", "began", "suites", "toolchain", "against", "passed", "failed", "untestable", ""):
            table.add_column(name, justify="right" if name in ("passed", "failed", "untestable") else "left")
        for night in self.shape().nights:
            passed, failed = (sum(night.cases.get(status, 0) for status in group) for group in (PASSING, FAILING))
            table.add_row(
                str(night.night),
                night.at[:16].replace("T", " "),
                ", ".join(night.suites),
                night.toolchain.name,
                night.baseline.name,
                str(passed),
                str(failed),
                str(night.cases.get(Status.UNTESTABLE, 0)),
                "partial" if night.partial else "",
            )
        yield table
        yield Text(f"{plural(len(self.nights), 'night')}, {self.bytes / 1e6:.1f} MB", style="dim")


def _stored(number: int, night: Night) -> StoredNight:
    return StoredNight(
        night=number,
        at=night.started,
        suites=sorted({case.suite for case in night.cases}),
        toolchain=night.toolchain,
        baseline=night.baseline,
        cases=dict(Counter(case.status.value for case in night.cases)),
        partial=night.partial,
    )


@dataclass(frozen=True)
class PrunedNights(Shape):
    """JSON of `triage nights prune`."""

    removed: list[int]
    kept: int
