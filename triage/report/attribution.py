"""Documents of `triage attribute`, the pass after which two compilers diverge, and of
`triage why`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from triage.attribute.result import Attribution, ComparisonResult, DivergingPass
from triage.report.document import (
    Block,
    Code,
    Document,
    Fact,
    Phrase,
    Span,
    Style,
    facts,
)
from triage.report.elements import (
    failure_facts,
    listed_facts,
    names_text,
    revision_text,
)
from triage.report.facts import since_facts
from triage.report.tables import log_blocks

if TYPE_CHECKING:
    from triage.bisect.history import KnownReleases
    from triage.investigate.result import Explanation

_MAX_NAMES = 6


def attribution_document(attribution: Attribution) -> Document:
    """Show the pass after which two compilers diverge."""
    answer = attribution_sentence(attribution)
    blocks: list[Block] = [
        [Span(attribution.case, "strong"), ": ", answer],
        facts(_facts(attribution)),
    ]
    return Document(f"{attribution.case}: {answer}", blocks)


def attribution_sentence(attribution: Attribution) -> str:
    """Return the answer in one sentence, without the case's name."""
    both = f"{attribution.good.name} and {attribution.bad.name}"
    same = f"{both} produce the same IR"
    passes = attribution.suspect_passes
    match attribution.status:
        case ComparisonResult.DIVERGES:
            sure = "" if attribution.is_sure else "not sure: "
            return f"{sure}{both} diverge after {' or after '.join(passes[:2])}"
        case ComparisonResult.FAILING:
            failing = passes[0] if passes else "the failing step, which is not a pass"
            return f"{same} up to {failing}; the change is in there"
        case ComparisonResult.SAME:
            return f"{same} after every pass"
        case ComparisonResult.INCONCLUSIVE:
            return f"cannot compare: {attribution.reason}"


def _facts(attribution: Attribution) -> Iterator[Fact]:
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
    for choice in diverging.choices[:_MAX_NAMES]:
        yield f"{choice.name}: {choice.good} -> {choice.bad}"
    counts = sorted(
        diverging.operations, key=lambda count: -abs(int(count.good) - int(count.bad))
    )
    if counts:
        texts = [f"{count.name} {count.good} -> {count.bad}" for count in counts]
        yield names_text(texts, _MAX_NAMES)
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


_REMEDIES_SHOWN = 3
_STYLES: dict[str, Style] = {"fails": "bad", "fixed": "good", "passes": "good"}
_OUTCOMES = {
    "passed": "passes on",
    "failed": "fails on",
    "untestable": "cannot be tested on",
}


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
    values = [text for text in explanation.assumed if ": " in text]
    yield "assumed", ", ".join(values)
    outcomes = dict(_OUTCOMES)
    if explanation.unseen and explanation.failure is None:
        outcomes["failed"] = "fails otherwise on"
    texts = [
        f"{outcomes.get(releases.outcome, 'not tried on')} {_range_text(releases)}"
        for releases in reversed(explanation.releases)
    ]
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
        phase = ""
        if attribution.phase:
            phase = f" (phase {attribution.phase})"
        yield "pass", attribution_sentence(attribution) + phase
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


def _range_text(releases: KnownReleases) -> str:
    """Return the names of neighbouring releases: `3.1.0`, or `3.1.0 to 3.6.0`."""
    return " to ".join(dict.fromkeys((releases.first.name, releases.last.name)))
