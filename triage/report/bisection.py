"""Reports of `triage bisect`, `triage suspects` and `triage history`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from triage.bisect.result import (
    Answer,
    Bisection,
    RankedChange,
    RankedChanges,
    Suspect,
)
from triage.model.outcome import ProbeResult
from triage.recipes.values import share_text
from triage.report.document import (
    Block,
    Document,
    Fact,
    Heading,
    Inline,
    Phrase,
    Span,
    Style,
    Table,
    facts,
)
from triage.report.elements import (
    compiler_title,
    failure_facts,
    failure_text,
    names_text,
    outcome_spans,
    plural,
    why_text,
)
from triage.report.facts import before_facts, certainty_text, verdict_text

if TYPE_CHECKING:  # they import numerics, which the reports do not need
    from triage.bisect.history import Histories

_SUSPECTS_SHOWN = 3
_NAMES_SHOWN = 12
_CHANGES_SHOWN = 20


def bisect_document(result: Bisection, compiler: str | None) -> Document:
    """Show a bisect's answer with what it rests on. compiler: the family, for links to
    its commits.
    """
    style: Style = "warning" if result.status is Answer.INCONCLUSIVE else "strong"
    verdict = Span(verdict_text(result, compiler_title(compiler)), style)
    blocks: list[Block] = [
        [Span(result.case, "strong"), ": ", verdict],
        facts(_facts(result, compiler)),
    ]
    if result.command:
        blocks.append(f"Run: {result.command}")
    return Document(f"Bisect of {result.case}", blocks)


def _facts(bisection: Bisection, compiler: str | None) -> Iterator[Fact]:
    yield "why", bisection.reason
    yield from before_facts(bisection, compiler)
    yield from failure_facts(bisection.failure)
    commits = [
        suspect for suspect in bisection.suspects if suspect.url or suspect.files
    ]
    for suspect in commits[:_SUSPECTS_SHOWN]:
        yield "commit", _commit_text(suspect)
    for text, group in groupby(bisection.other_failures, key=why_text):
        names = [other.toolchain.name for other in group]
        yield "another", f"{names_text(names, _NAMES_SHOWN)}: {text}"
    for reason, untestable in groupby(
        bisection.untestable, key=lambda result: result.reason
    ):
        names = [result.toolchain.name for result in untestable]
        yield "untestable", f"{names_text(names, _NAMES_SHOWN)}: {reason}"
    probes = plural(bisection.probes, "probe")
    cost = f"{probes} in {plural(bisection.rounds, 'round')}"
    if bisection.cached:
        cost += f", {plural(bisection.cached, 'cache hit')}"
    yield "certainty", f"{certainty_text(bisection)}; {cost}"


def _commit_text(suspect: Suspect) -> Inline:
    share = f"{share_text(suspect.probability, 0)} " if suspect.probability < 1 else ""
    text: Phrase = [share, Span(suspect.name, "strong"), f" {suspect.subject}"]
    if suspect.reasons:
        text.append(f"\nsuspicious: {'; '.join(suspect.reasons)}")
    if suspect.url:
        text += ["\n", Span(suspect.url, "dim", suspect.url)]
    return text


def suspects_document(result: RankedChanges) -> Document:
    """Show changes ranked by how suspicious the failure makes them."""
    blocks: list[Block] = []
    if result.failure:
        blocks.append(Span(failure_text(result.failure), "strong"))
    rows = [_suspect_row(change) for change in result.suspects]
    columns = ("", "commit", "date", "change")
    blocks.append(Table(columns, rows[:_CHANGES_SHOWN]))
    total = plural(len(rows), "change")
    text = f"{total}, ranked by what they change; --format json lists all"
    return Document("Suspects", [*blocks, text])


def _suspect_row(change: RankedChange) -> list[Inline]:
    words: Phrase = [change.subject or ""]
    if change.reasons:
        words.append(Span(f"\n{'; '.join(change.reasons)}", "dim"))
    name = Span(change.name, "strong", change.url)
    return [share_text(change.probability), name, change.date or "", words]


def history_document(result: Histories) -> Document:
    """Show the states of each case, those that changed first, and how many compiles
    were needed.
    """
    blocks: list[Block] = []
    for history in sorted(result.cases, key=lambda history: not history.changes):
        rows = (
            (_releases(group), outcome_spans(group[-1], plain=True))
            for group in history.states
        )
        blocks += [Heading(history.case), facts(rows)]
    compiles = plural(sum(history.compiles for history in result.cases), "compile")
    return Document("History", [*blocks, Span(compiles, "dim")])


def _releases(group: Sequence[ProbeResult]) -> str:
    first, last = group[0].toolchain.name, group[-1].toolchain.name
    return first if first == last else f"{first} .. {last}"
