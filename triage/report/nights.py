"""The list of stored nights: what each one compared, and what it said."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.outcome import FAILING, PASSING, Status
from triage.nightly.history import NightColumns
from triage.report.document import Block, Table
from triage.report.next_step import backend_sentence

_TITLES = ("night", "began", "suites", "toolchain", "against")
_COUNTS = ("passed", "failed", "untestable", "", "what it said")


def night_blocks(nights: Sequence[tuple[int, NightColumns]]) -> list[Block]:
    """Return a row for each night."""
    rows = []
    for number, columns in nights:
        night, statuses = columns.night, columns.statuses
        counts = [
            str(sum(statuses.get(status, 0) for status in group))
            for group in (PASSING, FAILING, (Status.UNTESTABLE,))
        ]
        names = [", ".join(columns.suites), night.toolchain.name, night.baseline.name]
        began = night.started[:16].replace("T", " ")
        sentences = [backend_sentence(verdict, night) for verdict in columns.verdicts]
        partial = "partial" if night.partial else ""
        said = " ".join(sentences)
        rows.append([str(number), began, *names, *counts, partial, said])
    return [Table((*_TITLES, *_COUNTS), rows)]
