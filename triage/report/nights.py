"""Reports of `triage nights`: the list of stored nights, the difference of two, and what was imported or removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nights.record import StoredNight
from triage.report.elements import failure_text, plural
from triage.report.night_record import CaseRecord, NightRecord, failure_of
from triage.report.registry import Report
from triage.report.shapes import FailureShape, Shape


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
            yield Text("no nights yet: `triage nightly` stores each one, `triage nights import` adds older ones")
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
class CaseDifferenceShape(Shape):
    """A case that differs between two nights. `change` is regressed, fixed, changed, appeared, disappeared or other."""

    case: str
    change: str
    before: str | None
    after: str | None
    failure: FailureShape | None


@dataclass(frozen=True)
class NightsComparisonShape(Shape):
    """JSON of `triage nights compare`. `same` counts the cases with equal results."""

    before: StoredNightShape
    after: StoredNightShape
    differences: list[CaseDifferenceShape]
    same: int


@dataclass(frozen=True, slots=True)
class NightsComparisonReport(Report):
    """Which cases have another result in the second of two nights."""

    before: StoredNight
    after: StoredNight
    old: NightRecord
    new: NightRecord

    @property
    def differences(self) -> tuple[CaseDifferenceShape, ...]:
        """The cases that differ, regressions first."""
        old, new = ({case.case: case for case in night.cases} for night in (self.old, self.new))
        rows = [_difference(name, old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new])]
        order = ("regressed", "changed", "fixed", "other", "appeared", "disappeared")
        return tuple(sorted(filter(None, rows), key=lambda row: (order.index(row.change), row.case)))

    @property
    def has_regressed(self) -> bool:
        return any(row.change in ("regressed", "changed") for row in self.differences)

    def shape(self) -> NightsComparisonShape:
        rows = list(self.differences)
        names = {case.case for night in (self.old, self.new) for case in night.cases}
        return NightsComparisonShape(stored_shape(self.before), stored_shape(self.after), rows, len(names) - len(rows))

    def blocks(self) -> Iterable[RenderableType]:
        shape = self.shape()
        for label, night in (("before", shape.before), ("after", shape.after)):
            yield Text(f"{label}: night {night.night}, {night.at[:16].replace('T', ' ')}, {night.toolchain.name}")
        for row in shape.differences:
            style = {"regressed": "bold red", "changed": "magenta", "fixed": "green"}.get(row.change, "")
            text = Text.assemble("  ", (f"{row.change:12}", style), (row.case, "bold"), f"  {row.before} -> {row.after}")
            yield text.append(f"  {failure_text(failure_of(row.failure))}") if row.failure else text
        yield Text(f"{plural(len(shape.differences), 'case')} differ, {shape.same} are the same")


def _difference(name: str, old: CaseRecord | None, new: CaseRecord | None) -> CaseDifferenceShape | None:
    before, after = (case.status if case else None for case in (old, new))
    failures = [case.failure.signature if case and case.failure else None for case in (old, new)]
    if before == after and failures[0] == failures[1]:
        return None
    change = "other"
    if old is None or new is None:
        change = "appeared" if old is None else "disappeared"
    elif after == Status.FAILED:
        change = "changed" if before in FAILING else "regressed" if before != Status.UNTESTABLE else "other"
    elif before in FAILING and after in PASSING:
        change = "fixed"
    shown = new.failure if new and new.failure else old.failure if old else None
    return CaseDifferenceShape(name, change, before, after, shown)


@dataclass(frozen=True)
class ImportedNightsShape(Shape):
    """JSON of `triage nights import`: numbers of the nights that were added, and files that were there already."""

    added: list[int]
    known: list[str]


@dataclass(frozen=True)
class PrunedNightsShape(Shape):
    """JSON of `triage nights prune`."""

    removed: list[int]
    kept: int
