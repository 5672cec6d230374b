"""Report of `triage history`: the states of each case across releases."""

from __future__ import annotations

from itertools import groupby

from triage.bisect.history import Histories, History
from triage.model.outcome import Status
from triage.report.bisection import branch_facts
from triage.report.document import Block, Document, Facts, Heading, Inline, Paragraph, Span
from triage.report.elements import STYLES, cases_text, compiler_title, failure_text, plural


def history_document(result: Histories) -> Document:
    """Show the states of each case, those of cases that have the same once, and how many compiles were needed."""
    blocks: list[Block] = []
    for compiler in dict.fromkeys(history.about.compiler for history in result.cases):
        family = [history for history in result.cases if history.about.compiler == compiler]
        alike: dict[str, list[History]] = {}
        for history in family:
            key = [(state.releases, state.status, state.failure and state.failure.signature) for state in history.states]
            alike.setdefault(repr(key), []).append(history)
        for group in sorted(alike.values(), key=lambda group: not group[0].changes):
            blocks += [Heading(cases_text([history.case for history in group])), Facts(_states(group[0]))]
        compiles = plural(sum(history.compiles for history in family), "compile")
        pairs = plural(len(family) * len(family[0].places), "pair")
        probes, title = sum(len(history.probes) for history in family), compiler_title(compiler)
        blocks.append(Paragraph(Span(f"probed {probes} of {pairs} of case and {title} release with {compiles}", "dim")))
    if result.branches:
        blocks.append(Facts(branch_facts(result.branches)))
    return Document("History", blocks)


def _states(history: History) -> list[tuple[str, Inline]]:
    """Return the releases of each state with what it is; neighbours that cannot be tested are one row."""
    rows: list[tuple[str, Inline]] = []
    for (status, _), group in groupby(
        history.states, key=lambda state: (state.status, state.failure and state.failure.signature)
    ):
        first, *_, last = (*group,) * 2
        releases = first.first if first.first == last.last else f"{first.first} .. {last.last}"
        why = failure_text(last.failure) if last.failure and status == Status.FAILED else last.reason
        rows.append((releases, [Span(status, STYLES[Status(status)]), f"  {why}" if why else ""]))
    return rows
