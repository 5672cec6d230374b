"""Reports of the searches: `triage bisect`, `suspects`, `history`, `attribute`, `why`,
`remedy` and `variants`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from triage.attribute.result import Attribution, DivergingPass
from triage.bisect.result import (
    Answer,
    Bisection,
    RankedChanges,
    Suspect,
)
from triage.recipes.values import share_text
from triage.remedy.result import COST_METRICS, Remedies, Remedy
from triage.report.document import (
    Block,
    Bullets,
    Code,
    Document,
    Fact,
    Heading,
    Inline,
    Phrase,
    Span,
    Style,
    Table,
    TableRows,
    facts,
)
from triage.report.elements import (
    STYLES,
    compiler_title,
    failure_facts,
    failure_text,
    grouped_facts,
    listed_facts,
    names_text,
    outcome_spans,
    plural,
    range_text,
    revision_text,
)
from triage.report.facts import (
    CONFIRMED,
    attribution_text,
    facts_before_change,
    since_facts,
    verdict_text,
)
from triage.report.tables import log_blocks

if TYPE_CHECKING:  # each command needs the classes of one of them
    from triage.bisect.history import Histories
    from triage.investigate.result import Explanation
    from triage.remedy.variants import Variants

_SUSPECTS_SHOWN = 3
_CHANGES_SHOWN = 20
_KINDS_SHOWN = 6  # differences between two compilers
_REMEDIES_SHOWN = 3
_STYLES: dict[str, Style] = {"fails": "bad", "fixed": "good", "passes": "good"}
_OUTCOMES = {
    "passed": "passes on",
    "failed": "fails on",
    "untestable": "cannot be tested on",
}


def bisect_document(result: Bisection, compiler: str | None) -> Document:
    """Show a bisect's answer with what it rests on. compiler: the family, for links to
    its commits.
    """
    style: Style = "warning" if result.status is Answer.INCONCLUSIVE else "strong"
    verdict = Span(verdict_text(result, compiler_title(compiler)), style)
    blocks: list[Block] = [
        [Span(result.case, "strong"), ": ", verdict],
        facts(_bisect_facts(result, compiler)),
    ]
    if result.command:
        blocks.append(f"Run: {result.command}")
    return Document(f"Bisect of {result.case}", blocks)


def _bisect_facts(bisection: Bisection, compiler: str | None) -> Iterator[Fact]:
    yield "why", bisection.reason
    yield from facts_before_change(bisection, compiler)
    yield from failure_facts(bisection.failure)
    for change in filter(None, (bisection.broke, bisection.changed)):
        for suspect in change.suspects[:_SUSPECTS_SHOWN]:
            if suspect.url or suspect.files:
                yield "commit", _commit_text(suspect)
    yield from grouped_facts("another", bisection.other_failures)
    yield from grouped_facts("untestable", bisection.untestable)
    cost = f"{plural(bisection.probes, 'probe')} in {plural(bisection.rounds, 'round')}"
    if bisection.cached:
        cost += f", {plural(bisection.cached, 'cache hit')}"
    certainty = CONFIRMED if bisection.confirmed else "not confirmed"
    yield "certainty", f"{certainty}; {cost}"


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
    blocks.append(Table(("", "commit", "date", "change"), rows[:_CHANGES_SHOWN]))
    text = (
        f"{plural(len(rows), 'change')}, ranked by what they change; --format json "
        "lists all"
    )
    return Document("Suspects", [*blocks, text])


def _suspect_row(change: Suspect) -> list[Inline]:
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
        rows: list[Fact] = []
        for group in history.states:
            names = [result.toolchain.name for result in group]
            rows.append((range_text(names), outcome_spans(group[-1], plain=True)))
        blocks += [Heading(history.case), facts(rows)]
    compiles = plural(sum(history.compiles for history in result.cases), "compile")
    return Document("History", [*blocks, Span(compiles, "dim")])


def attribution_document(attribution: Attribution) -> Document:
    """Show the pass after which two compilers diverge."""
    answer = attribution_text(attribution, with_phase=False)
    blocks: list[Block] = [
        [Span(attribution.case, "strong"), ": ", answer],
        facts(_attribution_facts(attribution)),
    ]
    return Document(f"{attribution.case}: {answer}", blocks)


def _attribution_facts(attribution: Attribution) -> Iterator[Fact]:
    yield "good", revision_text(attribution.good)
    yield "bad", revision_text(attribution.bad)
    yield from failure_facts(attribution.failure)
    yield "function", attribution.function.get("bad")
    yield "phase", attribution.first_phase
    for name, diverging in (
        ("pass", attribution.persistent),
        ("or", attribution.other),
    ):
        if diverging:
            yield name, _pass_text(diverging, attribution)
            yield from listed_facts("right after it", differing_lines(diverging))
    yield from listed_facts("note", attribution.notes)


def differing_lines(diverging: DivergingPass) -> Iterator[str]:
    """Yield one line for each kind of difference after a pass."""
    for choice in diverging.choices[:_KINDS_SHOWN]:
        yield f"{choice.name}: {choice.good} -> {choice.bad}"
    counts = sorted(
        diverging.operations, key=lambda count: -abs(int(count.good) - int(count.bad))
    )
    if counts:
        texts = [f"{count.name} {count.good} -> {count.bad}" for count in counts]
        yield names_text(texts, _KINDS_SHOWN)
    elif not diverging.choices:
        yield "the same operations with other types"


def _pass_text(diverging: DivergingPass, attribution: Attribution) -> str:
    text = diverging.name
    if diverging.argument:
        text += f" ({diverging.argument})"
    for side, revision in (
        (diverging.good, attribution.good),
        (diverging.bad, attribution.bad),
    ):
        if side is None:
            text += f"; on {revision.name} it does not run here or changes nothing"
    return text


def why_document(explanation: Explanation) -> Document:
    """Show on one screen what fails, since when, where, what works around it, and what
    to do next.
    """
    blocks: list[Block]
    if explanation.log is not None:
        reason = Span(f"not run: {explanation.reason}", "warning")
        blocks = [reason, *log_blocks(explanation.log)]
    else:
        target = ""
        if explanation.target:
            target = f" for {explanation.target}"
        if not set(target.split()).isdisjoint(explanation.assumed):
            target += " (assumed; --backend and --chip choose another)"
        status = Span(headline(explanation), _STYLES.get(explanation.status, "warning"))
        title: Phrase = [Span(explanation.case, "strong"), target, ": ", status]
        blocks = [title, facts(why_facts(explanation))]
    if explanation.next:
        blocks += [Span("Next", "strong"), Code("\n".join(explanation.next))]
    return Document(f"Why {explanation.case} fails", blocks)


def headline(explanation: Explanation) -> str:
    """Return in one line whether the case fails."""
    name = explanation.toolchain.name if explanation.toolchain else "?"
    if explanation.is_unreadable:
        return "the program is wrong: no release can read it"
    if explanation.flaky:
        return f"fails only sometimes on {name}"
    if explanation.unseen and explanation.failure is None:
        return f"the reported {explanation.unseen} was not seen"
    if explanation.failure and explanation.toolchain == explanation.fails_on:
        return f"fails on {name}"
    older = ""
    if explanation.fails_on:
        older = f"; fails on {explanation.fails_on.name}"
    if explanation.passes:
        return f"passes on {name}{older}"
    if explanation.is_reported_error:
        return f"ends on {name} as reported"
    if explanation.unanswered:
        return f"cannot be tested on {name}{older}"
    return f"fails otherwise on {name}{older}"


def why_facts(explanation: Explanation) -> Iterator[Fact]:
    """Yield what each step found."""
    yield "reason", explanation.reason
    yield "assumed", ", ".join(text for text in explanation.assumed if ": " in text)
    outcomes = dict(_OUTCOMES)
    if explanation.unseen and explanation.failure is None:
        outcomes["failed"] = "fails otherwise on"
    texts = []
    for releases in reversed(explanation.releases):
        verb = outcomes.get(releases.outcome, "not tried on")
        ends = releases.first.name, releases.last.name
        texts.append(f"{verb} {range_text(ends)}")
    if texts and not (explanation.bisection and explanation.bisection.confirmed):
        yield "releases", "; ".join(texts)
    if explanation.unseen and explanation.failure:
        yield "reported", f"{explanation.unseen}, which is another failure"
    yield from failure_facts(explanation.failure)
    if explanation.bisection:
        yield from since_facts(explanation.bisection, explanation.compiler)
    if explanation.fixed:
        yield "upgrade", f"it passes on {explanation.fixed.name}"
    attribution = explanation.attribution
    if attribution:
        yield "pass", attribution_text(attribution)
        if attribution.persistent:
            yield "", next(differing_lines(attribution.persistent))
    for remedy in explanation.remedies[:_REMEDIES_SHOWN]:
        names = ", ".join(revision.name for revision in remedy.verified_on)
        text = f": works on {names}. {remedy.explanation}"
        yield "remedy", [Span(remedy.text, "strong"), text]
    for step in explanation.left:
        if step.status == "left":
            yield "not done", f"{step.step}: {step.reason}"
        else:
            yield step.step, step.reason


def remedy_document(result: Remedies) -> Document:
    """Show each remedy in a row with its cost, or why there is nothing to remedy."""
    name = Span(result.case, "strong")
    if result.failure is None:
        nothing = Span("nothing to remedy", "warning")
        return Document("Remedies", [[name, ": ", nothing, f", {result.reason}"]])
    labels = [label for label, _ in COST_METRICS.values()]
    rows: TableRows = []
    if result.upgrade:
        upgrade = Span(f"upgrade to {result.upgrade.name}", "strong")
        rows.append([upgrade, *[""] * (len(labels) + 1), result.upgrade.name, ""])
    rows += map(_remedy_row, result.remedies)
    explained: list[Inline] = [
        [Span(remedy.text, "strong"), f": {remedy.explanation}"]
        for remedy in result.remedies
        if remedy.explanation
    ]
    count = len(result.remedies)
    weak = sum(bool(remedy.weakness) for remedy in result.remedies)
    summary = plural(count, "remedy", "remedies")
    if weak:
        summary += f", {weak} of them weak"
    elif result.upgrade and not count:
        summary = "only an upgrade helps"
    style = STYLES["passed" if weak < count else "warning"]
    columns = ("change", "compile time", *labels, "holds on", "breaks")
    blocks: list[Block] = [
        [name, f" on {result.toolchain.name}: ", Span(summary, style)],
        facts([("failure", failure_text(result.failure))]),
    ]
    if rows:
        blocks.append(Table(columns, rows))
    if explained:
        blocks.append(Bullets(explained))
    tried = Span(f"{plural(result.tried, 'candidate')} tried", "dim")
    blocks.append(result.reason or tried)
    return Document("Remedies", blocks)


def _remedy_row(remedy: Remedy) -> list[Inline]:
    cost = remedy.cost
    seconds = f"{cost.get('cpu_seconds', 0):.1f} s"
    costs = [
        f"{cost[metric]:.0f}{unit}" if metric in cost else ""
        for metric, (_, unit) in COST_METRICS.items()
    ]
    ends = (
        ", ".join(revision.name for revision in revisions)
        for revisions in (remedy.verified_on, remedy.breaks)
    )
    return [Span(remedy.text, "strong"), seconds, *costs, *ends]


def variants_document(result: Variants) -> Document:
    """Show the compared variants of a case."""
    rows: TableRows = []
    for variant in result.results:
        values = [variant.values.get(key, "") for key in result.keys]
        rows.append([*values, outcome_spans(variant, short=True, plain=True)])
    blocks: list[Block] = [
        Table((*result.keys, "result"), rows),
        Span(result.sentence, "strong"),
    ]
    if result.failure:
        blocks.append(failure_text(result.failure))
    return Document("Variants", blocks)
