"""What is said of nights and of a case in them: on the terminal and on pages."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.outcome import FAILING, PASSING, Status
from triage.nightly.history import NightColumns
from triage.nightly.known_case import CaseState
from triage.report.document import Table
from triage.report.elements import plural
from triage.report.next_step import backend_sentence

_TITLES = ("night", "began", "suites", "toolchain", "against")
_COUNTS = ("passed", "failed", "untestable", "", "what it said")


_STATES = {Status.XFAIL: "fails as expected", Status.XPASS: "passes unexpectedly"}


def state_sentence(state: CaseState) -> str:
    """Return the last result of a case: `failed since 2026-01-06 with 3.13.0`."""
    name = _STATES.get(state.status, state.status.value)
    text = f"{name} since {state.since} with {state.toolchain.name}"
    if state.missed:
        text += f"; not run in the last night of its track, {state.missed}"
    if state.flaky_changes:
        changes = plural(state.flaky_changes, "change")
        text += f"; flaky: {changes} without a change of the compiler"
    return text


def night_table(nights: Sequence[tuple[int, NightColumns]]) -> Table:
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
    return Table((*_TITLES, *_COUNTS), rows)
