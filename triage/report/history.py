"""Report of `triage history`: each case's status across releases, and its changes."""

from __future__ import annotations

from collections.abc import Sequence

from triage.bisect.history import Histories, History, StatusChange
from triage.execution.results import run_result
from triage.model.case import Case
from triage.report.bisection import branch_facts
from triage.report.document import Block, Bullets, Document, Facts, Heading, Inline, Paragraph, Span
from triage.report.elements import cases_text, failure_text, plural
from triage.report.runs import Row, letter_table


def history_document(result: Histories) -> Document:
    """Show a letter for each case and release, each change and failure, and how many compiles were needed."""
    blocks: list[Block] = []
    for compiler in dict.fromkeys(history.about.compiler for history in result.cases):
        family = [history for history in result.cases if history.about.compiler == compiler]
        versions = [place.name for place in family[0].places]
        rows: dict[str, Row] = {}
        for history in family:
            probed = {probe.revision.name: run_result(probe) for probe in history.probes}
            rows[history.case] = [probed.get(version) for version in versions]
        blocks += letter_table(rows, versions)
        alike: dict[str, list[History]] = {}
        for history in family:
            states = [(state.releases, state.failure and state.failure.signature) for state in history.states]
            alike.setdefault(repr((list(map(_change_text, history.changes)), states)), []).append(history)
        for group in alike.values():
            blocks += _changes(group, versions)
        untestable: dict[str, dict[str, list[Case]]] = {}
        for history in family:
            for state in history.states:
                if state.status == "untestable" and state.reason:
                    untestable.setdefault(state.reason, {}).setdefault(state.releases, []).append(history.about)
        if untestable:
            reasons: list[Inline] = []
            for why, places in untestable.items():
                where = "; ".join(
                    f"{cases_text([case.name for case in cases])} on {releases}" for releases, cases in places.items()
                )
                reasons.append([why, Span(f" ({where})", "dim")])
            blocks += [Heading("untestable", 3), Bullets(reasons)]
        compiles = plural(sum(history.compiles for history in family), "compile")
        pairs = plural(len(family) * len(versions), "pair")
        probes = sum(len(history.probes) for history in family)
        blocks.append(Paragraph(f"probed {probes} of {pairs} of case and version with {compiles}"))
    if result.branches:
        blocks.append(Facts(branch_facts(result.branches)))
    return Document("History", blocks)


def _changes(group: Sequence[History], versions: Sequence[str]) -> list[Block]:
    """Return the changes and the failures of cases that have the same."""
    history = group[0]
    changes = sorted((*history.changes, *history.failure_changes), key=lambda change: versions.index(change.after.name))
    failures = [
        (state.releases, failure_text(state.failure)) for state in history.states if state.failure and state.status == "failed"
    ]
    if not changes and not failures:
        return []
    blocks: list[Block] = [Heading(cases_text([one.about.name for one in group]), 3)]
    blocks += [Bullets([_change_text(change) for change in changes])] if changes else []
    return [*blocks, Facts(failures)] if failures else blocks


def _change_text(change: StatusChange) -> str:
    sides = ((change.from_, change.from_failure), (change.to, change.to_failure))
    old, new = (f"{status} ({failure.failure_class})" if failure else status for status, failure in sides)
    return f"{change.before.name} -> {change.after.name}: {old} -> {new}"
