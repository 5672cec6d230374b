"""Histories on a terminal: the grid, then each change in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.text import Text

from triage.bisect.history import History, StatusChange, plain_status
from triage.model.outcome import Compiled, Probe
from triage.report.grid import grid


def history_blocks(histories: Sequence[History], versions: Sequence[str], columns: int) -> Iterable[RenderableType]:
    """The grid of cases by versions, a line for each change, and the number of compiles that were needed."""
    rows: list[tuple[str, list[Probe | None]]] = []
    for one in histories:
        asked = {probe.revision.name: probe for probe in one.probes}
        rows.append((one.case.name, [asked.get(version) for version in versions]))
    yield from grid(rows, versions, columns)
    for one in histories:
        if one.changes or one.failure_changes:
            yield Text(f"\n{one.case.name}", style="bold")
            order = sorted((*one.changes, *one.failure_changes), key=lambda change: versions.index(change.after.revision.name))
            for change in order:
                yield Text(f"  {change.before.revision.name} -> {change.after.revision.name}: {_words(change)}")
    compiles = sum(one.compiles for one in histories)
    asked_count = sum(len(one.probes) for one in histories)
    yield Text(f"\n{asked_count} of {len(histories) * len(versions)} states looked at, {compiles} compiles.")


def _words(change: StatusChange) -> str:
    return f"{_word(change.before)} -> {_word(change.after)}"


def _word(probe: Probe) -> str:
    outcome = probe.outcome
    if isinstance(outcome, Compiled) or outcome.failure is None:
        return plain_status(outcome)
    return f"{plain_status(outcome)} ({outcome.failure.failure_class})"
