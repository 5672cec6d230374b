"""Documents of `triage attribute`, the pass after which two compilers diverge, and of
`triage why`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from triage.attribute.excerpt import diff
from triage.attribute.result import Attribution, ComparisonResult, DivergingPass
from triage.report.document import (
    Block,
    Code,
    Document,
    Fact,
    Facts,
    Heading,
    Paragraph,
    Span,
    Style,
    styled,
)
from triage.report.elements import (
    failure_facts,
    listed_facts,
    names_text,
    revision_text,
    unseen_text,
)
from triage.report.facts import since_facts
from triage.report.tables import log_blocks

if TYPE_CHECKING:
    from triage.investigate.explanation import Explanation
    from triage.investigate.own_program import KnownReleases

_MAX_LINES = 80  # of IR
_MAX_NAMES = 6


def attribution_document(found: Attribution) -> Document:
    """Show the pass after which two compilers diverge, with the IR of both."""
    answer = attribution_sentence(found)
    blocks: list[Block] = [
        Paragraph([Span(found.case, "strong"), ": ", answer]),
        Facts(list(_facts(found))),
    ]
    excerpt = found.persistent.excerpt if found.persistent else None
    if excerpt:
        lines = islice(diff(excerpt.good, excerpt.bad), _MAX_LINES)
        good, bad = found.good.name, found.bad.name
        title = f"IR after {found.passes[0]}: - {good}, + {bad}"
        blocks += [Heading(title), Code("\n".join(lines), "diff")]
    return Document(f"{found.case}: {answer}", blocks)


def attribution_sentence(found: Attribution) -> str:
    """Return the answer in one sentence, without the case's name."""
    both = f"{found.good.name} and {found.bad.name}"
    same = f"{both} produce the same IR"
    passes = found.passes
    match found.status:
        case ComparisonResult.DIVERGES:
            sure = "" if found.is_sure else "not sure: "
            return f"{sure}{both} diverge after {' or after '.join(passes[:2])}"
        case ComparisonResult.FAILING:
            failing = passes[0] if passes else "the failing step, which is not a pass"
            return f"{same} up to {failing}; the change is in there"
        case ComparisonResult.SAME:
            return f"{same} after every pass"
        case ComparisonResult.INCONCLUSIVE:
            return f"cannot compare: {found.reason}"


def _facts(found: Attribution) -> Iterator[Fact]:
    yield "good", revision_text(found.good)
    yield "bad", revision_text(found.bad)
    yield from failure_facts(found.failure)
    function = found.function.get("bad")
    if function:
        yield "function", function
    if found.first_phase:
        yield "phase", found.first_phase
    for name, diverging in (("pass", found.persistent), ("or", found.other)):
        if diverging:
            yield name, _pass_text(diverging, found)
            if found.function:  # else only names of passes are known
                yield from listed_facts("right after it", differing_lines(diverging))
    yield from listed_facts("source", found.files)
    yield from listed_facts("note", found.notes)


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


def _pass_text(diverging: DivergingPass, found: Attribution) -> str:
    text = diverging.name
    if diverging.argument:
        text += f" ({diverging.argument})"
    for side, revision in ((diverging.good, found.good), (diverging.bad, found.bad)):
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


def why_document(found: Explanation) -> Document:
    """Show on one screen what fails, since when, where, what works around it, and what
    to do next.
    """
    blocks: list[Block]
    if found.log is not None:
        reason = styled(f"not run: {found.reason}", "warning")
        blocks = [reason, *log_blocks(found.log)]
    else:
        target = f" for {found.target}" if found.target else ""
        if not set(target.split()).isdisjoint(found.assumed):
            target += " (assumed; --backend and --chip choose another)"
        status = Span(headline(found), _STYLES.get(found.status, "warning"))
        title = Paragraph([Span(found.case, "strong"), target, ": ", status])
        blocks = [title, Facts(list(why_facts(found)))]
    if found.next:
        blocks += [styled("Next", "strong"), Code("\n".join(found.next))]
    return Document(f"Why {found.case} fails", blocks)


def headline(found: Explanation) -> str:
    """Return in one line whether the case fails."""
    name = found.toolchain.name if found.toolchain else "?"
    if found.is_unreadable:
        return "the program is wrong: no release can read it"
    if found.flaky:
        return f"fails only sometimes on {name}"
    if found.reads:
        verb = "passes" if found.failure is None else "fails"
        known = f"{found.reads.name} is the newest release known to read it"
        return f"{name} cannot read this program; {known}, and it {verb} there"
    if found.unseen and found.failure is None:
        tried = [_range(one) for one in found.releases if one.outcome != "not tried"]
        return unseen_text(found.unseen, tried or [name])
    if found.failure and found.toolchain == found.fails_on:
        return f"fails on {name}"
    older = f"; fails on {found.fails_on.name}" if found.fails_on else ""
    if found.passes:
        return f"passes on {name}{older}"
    if found.fails_otherwise:
        return f"fails otherwise on {name}{older}"
    if found.is_reported_error:
        return f"ends on {name} as reported"
    return f"cannot be tested on {name}{older}"


def why_facts(found: Explanation) -> Iterator[Fact]:
    """Yield what each step found."""
    if found.reason:
        yield "reason", found.reason
    values = [text for text in found.assumed if ": " in text]
    if values:
        yield "assumed", ", ".join(values)
    outcomes = dict(_OUTCOMES)
    if found.unseen and found.failure is None:
        outcomes["failed"] = "fails otherwise on"
    known = [
        f"{outcomes.get(one.outcome, 'not tried on')} {_range(one)}"
        for one in reversed(found.releases)
    ]
    if known and not (found.bisection and found.bisection.confirmed):
        yield "releases", "; ".join(known)
    if found.unseen and found.failure:
        yield "reported", f"{found.unseen}, which is another failure"
    yield from failure_facts(found.failure)
    if found.bisection:
        yield from since_facts(found.bisection, found.compiler)
    if found.fixed:
        yield "upgrade", f"it passes on {found.fixed.name}"
    attribution = found.attribution
    if attribution:
        phase = f" (phase {attribution.phase})" if attribution.phase else ""
        yield "pass", attribution_sentence(attribution) + phase
        if attribution.persistent:
            yield "", next(differing_lines(attribution.persistent))
    for remedy in found.remedies[:_REMEDIES_SHOWN]:
        names = ", ".join(revision.name for revision in remedy.verified_on)
        text = f": works on {names}. {remedy.explanation}"
        yield "remedy", [Span(remedy.text, "strong"), text]
    for step in found.left:
        if step.status == "left":
            yield "not done", f"{step.step}: {step.reason}"
        else:
            yield step.step, step.reason or ""


def _range(known: KnownReleases) -> str:
    """Return the names of neighbouring releases: `3.1.0`, or `3.1.0 to 3.6.0`."""
    return " to ".join(dict.fromkeys((known.first.name, known.last.name)))
