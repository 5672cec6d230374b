"""Documents of `triage attribute`, the pass after which two compilers diverge, and of
`triage why`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

from triage.attribute.excerpt import diff
from triage.attribute.result import Attribution, ComparisonResult, DivergingPass
from triage.bisect.result import Answer, Bisection
from triage.classify import ClassifiedLogs
from triage.model.execution import Stage
from triage.remedy.result import Remedy
from triage.report.bisection import certainty_text, verdict_text
from triage.report.document import (
    Block,
    Code,
    Document,
    Fact,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Span,
    Style,
    styled,
)
from triage.report.elements import (
    compiler_title,
    failure_facts,
    listed_facts,
    names_text,
    range_text,
    revision_text,
    unseen_text,
)
from triage.report.formats import rendered
from triage.report.tables import classify_document
from triage.toolchains.home import save_file

if TYPE_CHECKING:
    from triage.execution.results import KnownReleases
    from triage.investigate.explanation import Explanation

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
        lines = list(islice(diff(excerpt.good, excerpt.bad), _MAX_LINES + 1))
        good, bad = found.good.name, found.bad.name
        title = f"IR after {found.passes[0]}: - {good}, + {bad}"
        blocks += [Heading(title), Code("\n".join(lines[:_MAX_LINES]), "diff")]
        if len(lines) > _MAX_LINES:
            blocks.append(styled("the rest is left out", "dim"))
    return Document(f"{found.case}: {answer}", blocks)


def write_attribution(found: Attribution, folder: Path) -> Path:
    """Write `attribution.html` into a folder and return its path."""
    path = folder / "attribution.html"
    page = rendered("html", found, attribution_document)
    save_file(path, page, f"write the page to {folder}")
    return path


def attribution_sentence(found: Attribution) -> str:
    """Return the answer in one sentence, without the case's name."""
    both = f"{found.good.name} and {found.bad.name}"
    same = f"{both} produce the same IR"
    match found.status:
        case ComparisonResult.DIVERGES if found.other and len(found.passes) > 1:
            first, second = found.passes[:2]
            return f"not sure: {both} diverge after {first} or after {second}"
        case ComparisonResult.DIVERGES if found.is_sure:
            return f"{both} diverge after {found.passes[0]}"
        case ComparisonResult.DIVERGES:
            text = f"{both} first diverge after {found.passes[0]}"
            return f"not sure: nothing fails, and {text}"
        case ComparisonResult.FAILING:
            if found.failure and found.failure.stage is not Stage.COMPILE:
                where = "after the last pass, in a large constant, or in the runtime"
                return f"{same} after every pass; the change is {where}"
            failing = "the failing step, which is not a pass"
            if found.passes:
                failing = found.passes[0]
            return f"{same} up to {failing}; the change is in there"
        case ComparisonResult.SAME:
            return f"{same} after every pass"
        case ComparisonResult.INCONCLUSIVE:
            return f"cannot compare: {found.reason}"


def _facts(found: Attribution) -> Iterator[Fact]:
    yield "good", revision_text(found.good)
    yield "bad", revision_text(found.bad)
    yield from failure_facts(found.failure)
    if found.failure:
        failing = found.failing.name if found.failing else found.failure.failing_pass
        where = ", ".join(filter(None, (found.failure.phase, failing)))
        if where:
            yield "fails in", where
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
    for note in found.notes:
        yield "note", note


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
    if diverging.function and diverging.function != found.function.get("bad"):
        text += f" on {diverging.function}"
    for side, revision in ((diverging.good, found.good), (diverging.bad, found.bad)):
        if side is None:
            text += f"; on {revision.name} it does not run here or changes nothing"
    return text


_REMEDIES_SHOWN = 3
_STYLES: dict[str, Style] = {"fails": "bad", "fixed": "good", "passes": "good"}


def why_document(found: Explanation) -> Document:
    """Show on one screen what fails, since when, where, what works around it, and what
    to do next.
    """
    if found.log is not None:
        reason = Span(f"not run: {found.reason}", "warning")
        log = classify_document(ClassifiedLogs([found.log]))
        blocks: list[Block] = [Paragraph(reason), *log.blocks]
    else:
        name, target = Span(found.case, "strong"), _target(found)
        status = Span(headline(found), _STYLES.get(found.status, "warning"))
        blocks = [
            Paragraph([name, target, ": ", status]),
            Facts(list(why_facts(found))),
        ]
    if found.next:
        blocks += [styled("Next", "strong"), Code("\n".join(found.next))]
    return Document(f"Why {found.case} fails", blocks)


def _target(found: Explanation) -> str:
    """Say what a case is compiled for, and whether somebody named that."""
    if not found.target:
        return ""
    if set(found.target.split()).isdisjoint(found.assumed):
        return f" for {found.target}"
    return f" for {found.target} (assumed; --backend and --chip choose another)"


def headline(found: Explanation) -> str:
    """Return in one line whether the case fails."""
    name = found.toolchain.name if found.toolchain else "?"
    if found.is_unreadable:
        return "the program is wrong: no release can read it"
    if found.flaky:
        return f"fails only sometimes on {name}"
    if found.unseen and found.failure is None and not found.reads:
        tried = [
            range_text(one) for one in found.releases if one.outcome != "not tried"
        ]
        return unseen_text(found.unseen, tried or [name])
    if found.failure and found.toolchain == found.fails_on:
        return f"fails on {name}"
    older = f"; fails on {found.fails_on.name}" if found.fails_on else ""
    if found.passes:
        return f"passes on {name}{older}"
    if found.fails_otherwise:
        return f"fails otherwise on {name}{older}"
    if found.reads:
        verb = "passes" if found.failure is None else "fails"
        known = f"{found.reads.name} is the newest release known to read it"
        return f"{name} cannot read this program; {known}, and it {verb} there"
    return f"cannot be tested on {name}{older}"


def why_facts(found: Explanation) -> Iterator[Fact]:
    """Yield what each step found."""
    if found.reason:
        yield "releases" if found.passes else "reason", found.reason
    values = [one for one in found.assumed if ": " in one]
    if values:
        yield "assumed", ", ".join(values)
    is_unfinished = any(step.step == "bisect" for step in found.left)
    if found.passes or found.failure is None or found.reads or is_unfinished:
        known = [_known_text(found, one) for one in reversed(found.releases)]
        if known:
            yield "releases", "; ".join(known)
    if found.unseen and found.failure:
        yield "reported", f"{found.unseen}, which is another failure"
    yield from failure_facts(found.failure)
    if found.bisection:
        yield from _since(found, found.bisection)
    attribution = found.attribution
    if attribution:
        phase = f" (phase {attribution.phase})" if attribution.phase else ""
        yield "pass", attribution_sentence(attribution) + phase
        if attribution.persistent:
            yield "", next(differing_lines(attribution.persistent))
    yield from _remedies(found.remedies)
    for step in found.left:
        if step.status == "left":
            yield "not done", f"{step.step}: {step.reason}"
        else:
            yield step.step, step.reason or ""


def _known_text(found: Explanation, known: KnownReleases) -> str:
    """Say how a case ended on neighbouring releases."""
    name = range_text(known)
    match known.outcome:
        case "passed":
            return f"passes on {name}"
        case "failed":
            other = found.unseen and found.failure is None
            return f"fails {'otherwise ' if other else ''}on {name}"
        case "untestable":
            return f"cannot be tested on {name}"
    return f"not tried on {name}"


def _since(found: Explanation, bisection: Bisection) -> Iterator[Fact]:
    """Yield which releases brought and fixed the failure."""
    if bisection.status is Answer.INCONCLUSIVE:
        # options of `triage bisect`
        reason = (bisection.reason or "not known").partition("; pass --")[0]
        if "at both ends" in reason:
            reason = reason.partition(": ")[0]
        yield "releases", reason
    else:
        verdict = verdict_text(bisection, compiler_title(found.compiler))
        name = "since" if bisection.brought_failure else "fixed"
        if bisection.confirmed:
            verdict += f"; {certainty_text(bisection)}"
        yield name, verdict
    if bisection.brought_failure and found.broke:
        yield "last good", revision_text(found.broke[0])
    if found.fixed:
        yield "upgrade", f"it passes on {found.fixed.name}"


def _remedies(remedies: Sequence[Remedy]) -> Iterator[Fact]:
    """Yield remedies, those that hold on the same revisions for the same reason in one
    row.
    """
    shown = remedies[:_REMEDIES_SHOWN]
    rows: list[Inline] = []
    for (revisions, explanation), group in groupby(
        shown, key=lambda remedy: (remedy.verified_on, remedy.explanation)
    ):
        changes = ", or ".join(remedy.text for remedy in group)
        holds = ", ".join(revision.name for revision in revisions)
        rows.append([Span(changes, "strong"), f": works on {holds}. {explanation}"])
    yield from listed_facts("remedy", rows)
