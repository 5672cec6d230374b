"""Reports of `triage nights`: the list of stored nights, and what was removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.report.document import Document, Paragraph, Table
from triage.report.elements import plural


@dataclass(frozen=True)
class StoredNight:
    """A stored night. `night` is its number, `cases` counts them by status."""

    night: int
    at: str
    suites: list[str]
    toolchain: Revision
    baseline: Revision
    cases: dict[str, int]
    partial: bool


@dataclass(frozen=True)
class StoredNights:
    """The stored nights, the oldest first, and the bytes that they take."""

    nights: list[StoredNight]
    bytes: int


@dataclass(frozen=True)
class PrunedNights:
    """The numbers of the nights that were removed, and how many are left."""

    removed: list[int]
    kept: int


def nights_document(result: StoredNights) -> Document:
    """Show the stored nights."""
    nights = result.nights
    if not nights:
        return Document("Nights", [Paragraph("no nights yet: `triage nightly` stores each one")])
    rows = [
        [
            str(night.night),
            night.at[:16].replace("T", " "),
            ", ".join(night.suites),
            night.toolchain.name,
            night.baseline.name,
            *(str(sum(night.cases.get(status, 0) for status in group)) for group in (PASSING, FAILING)),
            str(night.cases.get(Status.UNTESTABLE, 0)),
            "partial" if night.partial else "",
        ]
        for night in nights
    ]
    columns = ("night", "began", "suites", "toolchain", "against", "passed", "failed", "untestable", "")
    total = Paragraph(f"{plural(len(nights), 'night')}, {result.bytes / 1e6:.1f} MB")
    return Document("Nights", [Table(columns, rows), total])


def stored_nights(nights: Iterable[tuple[int, Night]], size: int) -> StoredNights:
    """Return what is listed of nights with their numbers. size: the bytes that they take."""
    return StoredNights([_stored(number, night) for number, night in nights], size)


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
