"""The list of stored nights."""

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
class ListedNight:
    """A stored night in few words."""

    night: int
    """Its number."""
    at: str
    suites: list[str]
    toolchain: Revision
    baseline: Revision
    cases: dict[Status, int]
    """Number of cases by status."""
    partial: bool


@dataclass(frozen=True)
class ListedNights:
    """The stored nights, the oldest first, and the bytes that they take."""

    nights: list[ListedNight]
    bytes: int


def listed(nights: Iterable[tuple[int, Night]], size: int) -> ListedNights:
    """Return what is listed of nights with their numbers. size: the bytes that they take."""
    rows = []
    for number, night in nights:
        suites = sorted({case.suite for case in night.cases})
        statuses = Counter(case.status for case in night.cases)
        rows.append(ListedNight(number, night.started, suites, night.toolchain, night.baseline, statuses, night.partial))
    return ListedNights(rows, size)


def nights_document(result: ListedNights) -> Document:
    """Show the stored nights."""
    if not result.nights:
        return Document("Nights", [Paragraph("no nights yet: `triage nightly` stores each one")])
    rows = []
    for night in result.nights:
        groups = (PASSING, FAILING, (Status.UNTESTABLE,))
        counts = [str(sum(night.cases.get(status, 0) for status in group)) for group in groups]
        names = [", ".join(night.suites), night.toolchain.name, night.baseline.name]
        began = night.at[:16].replace("T", " ")
        rows.append([str(night.night), began, *names, *counts, "partial" if night.partial else ""])
    columns = ("night", "began", "suites", "toolchain", "against", "passed", "failed", "untestable", "")
    total = Paragraph(f"{plural(len(rows), 'night')}, {result.bytes / 1e6:.1f} MB")
    return Document("Nights", [Table(columns, rows), total])
