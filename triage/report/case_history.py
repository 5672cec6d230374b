"""Report of `triage show`: everything that is known of one case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Status
from triage.model.revision import Revision
from triage.nightly.result import FailureCluster
from triage.report.case_facts import LogExcerpt, ToolchainState
from triage.report.elements import STATUS_STYLES, facts_table, plural
from triage.report.registry import Report
from triage.report.shapes import Shape

_LOG_LINES = 6  # on each side of the root cause


@dataclass(frozen=True)
class CaseRunShape(Shape):
    """Nights in which a case had the same state: from `first` to `last`, `nights` of them. cluster: id of its failure."""

    status: str
    flaky: bool
    first: str
    last: str
    nights: int
    toolchain: Revision
    track: str
    headline: str | None
    signature: str | None
    cluster: str | None


@dataclass(frozen=True)
class KnownCaseShape(Shape):
    """JSON of `triage show`. runs: the newest first; states: its last result on each toolchain that it ran on.

    failures: What nights found out about its failures: culprit, fix, reproducer, remedies, draft. tracked: their issues, by id.
    """

    case: str
    suite: str
    facts: dict[str, Any]
    runs: list[CaseRunShape]
    states: list[ToolchainState]
    flaky_changes: int = 0
    failures: list[FailureCluster] = field(default_factory=list)
    tracked: dict[str, str] = field(default_factory=dict)
    log: LogExcerpt | None = None


@dataclass(frozen=True, slots=True)
class CaseHistoryReport(Report):
    """Everything that is known of a case."""

    history: KnownCaseShape

    def shape(self) -> KnownCaseShape:
        return self.history

    def blocks(self) -> Iterable[RenderableType]:
        """Show the nights, the toolchains, the investigations of its failures and the output around the root cause."""
        history = self.history
        yield Text(history.case, style="bold")
        facts = [(name, str(value)) for name, value in history.facts.items() if value and name != "stages"]
        if history.flaky_changes:
            facts.append(("flaky", f"{plural(history.flaky_changes, 'change')} without a change of the compiler"))
        yield facts_table(facts)
        if history.runs:
            yield Text("\nNights", style="bold")
            yield _table(
                (
                    f"{run.first[:10]} to {run.last[:10]}" if run.nights > 1 else run.first[:10],
                    run.toolchain.name,
                    _status(run.status),
                    run.headline or "",
                )
                for run in history.runs
            )
        if history.states:
            yield Text("\nToolchains", style="bold")
            yield _table(
                (state.toolchain, _status(state.status), state.failure.headline if state.failure else "")
                for state in history.states
            )
        for signature in dict.fromkeys(run.signature for run in history.runs if run.signature):
            cluster = next(run.cluster for run in history.runs if run.signature == signature)
            known = next((each for each in history.failures if each.signature == signature), None)
            yield Text(f"\n{signature}", style="bold")
            yield facts_table([("page", f"failures/{cluster}.html"), *_known_facts(known, history.tracked.get(cluster or ""))])
        if history.log:
            yield Text(f"\nOutput on {history.log.toolchain}", style="bold")
            yield Text(f"  {history.log.command}", style="dim")
            yield from _log_lines(history.log)


def _table(rows: Iterable[tuple[str | Text, ...]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text(f"  {cell}") if not number and isinstance(cell, str) else cell for number, cell in enumerate(row)))
    return table


def _status(status: str) -> Text:
    return Text(status, style=STATUS_STYLES.get(Status(status), ""))


def _known_facts(known: FailureCluster | None, tracker: str | None) -> Iterable[tuple[str, str]]:
    if known:
        for name, span in (("culprit", known.culprit), ("fix", known.fix)):
            if span and span.before and span.after:
                yield name, f"between {span.before.name} and {span.after.name}"
        if known.reproducer:
            yield "reproducer", known.reproducer
        for remedy in known.remedies:
            yield "remedy", remedy.text
    if tracker:
        yield "tracked as", tracker


def _log_lines(log: LogExcerpt) -> Iterable[RenderableType]:
    first = 0 if log.root is None else max(0, log.root - _LOG_LINES)
    last = 2 * _LOG_LINES if log.root is None else log.root + _LOG_LINES
    for number, line in enumerate(log.lines[first : last + 1], first):
        yield Text(f"  {'>' if number == log.root else ' '} {line[:200]}", style="bold red" if number == log.root else "")
