"""Report of `triage show`: everything that is known of one case."""

from __future__ import annotations

from triage.model.outcome import Failure, Status
from triage.nightly.known_case import KnownCase, LogExcerpt
from triage.nightly.result import FailureCluster
from triage.report.document import Block, Code, Document, Facts, Heading, Inline, Paragraph, Span, Table
from triage.report.elements import STYLES, failure_text, plural

_LOG_LINES = 6  # on each side of the root cause
_WIDTH = 200  # characters of a line of a log


def known_case_document(result: KnownCase) -> Document:
    """Show the nights, the toolchains, what is known of each failure, and the output around the root cause."""
    facts: list[tuple[str, Inline]] = [(name, value) for name, value in result.facts.items() if value]
    if result.flaky_changes:
        facts.append(("flaky", f"{plural(result.flaky_changes, 'change')} without a change of the compiler"))
    blocks: list[Block] = [Paragraph(Span(result.case, "strong")), *([Facts(facts)] if facts else [])]
    if result.runs:
        nights: list[list[Inline]] = []
        for run in result.runs:
            when = run.first[:10] if run.nights == 1 else f"{run.first[:10]} to {run.last[:10]}"
            nights.append([when, run.toolchain.name, *_state(run.status, run.failure)])
        blocks += [Heading("Nights"), Table(("", "", "", ""), nights)]
    if result.states:
        states = [[state.toolchain, *_state(state.status, state.failure)] for state in result.states]
        blocks += [Heading("Toolchains"), Table(("", "", ""), states)]
    for cluster, signature in {run.cluster: run.failure.signature for run in result.runs if run.failure}.items():
        known = next((one for one in result.failures if one.signature == signature), None)
        rows: list[tuple[str, Inline]] = [("page", f"failures/{cluster}.html"), *_known(known)]
        if issue := result.tracked.get(cluster or ""):
            rows.append(("tracked as", issue))
        blocks += [Heading(signature), Facts(rows)]
    if result.log:
        blocks += [Heading(f"Output on {result.log.toolchain}")]
        blocks += [Paragraph(Span(result.log.command, "dim"))] if result.log.command else []
        blocks.append(Code(_log_text(result.log)))
    return Document(result.case, blocks)


def _state(status: Status, failure: Failure | None) -> list[Inline]:
    return [Span(status.value, STYLES[status]), failure_text(failure) if failure else ""]


def _known(cluster: FailureCluster | None) -> list[tuple[str, Inline]]:
    if cluster is None:
        return []
    facts: list[tuple[str, Inline]] = []
    for name, span in (("culprit", cluster.culprit), ("fix", cluster.fix)):
        if span and span.before and span.after:
            facts.append((name, f"between {span.before.name} and {span.after.name}"))
    facts += [("reproducer", cluster.reproducer)] if cluster.reproducer else []
    return [*facts, *(("remedy", remedy.text) for remedy in cluster.remedies)]


def _log_text(log: LogExcerpt) -> str:
    first = 0 if log.root is None else max(0, log.root - _LOG_LINES)
    last = 2 * _LOG_LINES if log.root is None else log.root + _LOG_LINES
    shown = enumerate(log.lines[first : last + 1], first)
    return "\n".join(f"{'>' if number == log.root else ' '} {line[:_WIDTH]}" for number, line in shown)
