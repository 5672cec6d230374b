"""Report of `triage why`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from triage.bisect.result import Answer, Bisection
from triage.classify import ClassifiedLogs
from triage.remedy.result import Remedies
from triage.report.attribution import differences, sentence
from triage.report.bisection import verdict_text
from triage.report.document import Code, Document, Facts, Inline, Paragraph, Span, Style
from triage.report.elements import compiler_title, failure_facts, revision_text
from triage.report.tables import classify_document

if TYPE_CHECKING:
    from triage.nightly.explanation import Explanation

_REMEDIES_SHOWN = 3
_STYLES: dict[str, Style] = {"fails": "bad", "fixed": "good", "passes": "good"}


def why_document(found: Explanation) -> Document:
    """Show on one screen what fails, since when, where, what works around it, and what to do next."""
    if found.log is not None:
        blocks = [*classify_document(ClassifiedLogs([found.log])).blocks]
    else:
        blocks = [Paragraph([Span(found.case, "strong"), ": ", Span(headline(found), _STYLES.get(found.status, "warning"))])]
        blocks += [Facts(list(why_facts(found)))]
    if found.next:
        blocks += [Paragraph(Span("Next", "strong")), Code("\n".join(found.next))]
    return Document(f"Why {found.case} fails", blocks)


def headline(found: Explanation) -> str:
    """Return in one line whether the case fails."""
    name = found.toolchain.name if found.toolchain else "?"
    if found.flaky:
        return f"fails only sometimes on {name}"
    if found.passes:
        before = f"; fails on {found.fails_on.name}" if found.fails_on else ""
        return f"passes on {name}{before}"
    return f"fails on {name}" if found.failure and found.toolchain == found.fails_on else f"cannot be tested on {name}"


def why_facts(found: Explanation) -> Iterator[tuple[str, Inline]]:
    """Yield what each step found."""
    if found.reason:
        yield "releases" if found.passes else "reason", found.reason
    yield from failure_facts(found.failure)
    if found.bisection:
        yield from _since(found, found.bisection)
    if attribution := found.attribution:
        yield "pass", f"{sentence(attribution)}{f' (phase {attribution.phase})' if attribution.phase else ''}"
        if attribution.persistent:
            yield "", next(differences(attribution.persistent))
    if found.remedies:
        yield from _remedies(found.remedies)
    yield from (("" if number else "advice", text) for number, text in enumerate(found.advice))
    for step in found.left:
        yield ("not done", f"{step.step}: {step.reason}") if step.status == "left" else (step.step, step.reason or "")


def _since(found: Explanation, bisection: Bisection) -> Iterator[tuple[str, Inline]]:
    if bisection.status is Answer.INCONCLUSIVE:
        reason = (bisection.reason or "not known").partition("; pass --")[0]  # options of `triage bisect`
        yield "releases", reason.partition(": ")[0] if "at both ends" in reason else reason
    else:
        certainty = "confirmed by probing both again" if bisection.confirmed else "not confirmed"
        name = "since" if bisection.brought_failure else "fixed"
        yield name, f"{verdict_text(bisection, compiler_title(found.compiler))}; {certainty}"
    if bisection.brought_failure and (pair := found.broke):
        yield "last good", revision_text(pair[0])
    if found.fixed:
        yield "upgrade", f"it passes on {found.fixed.name}"


def _remedies(found: Remedies) -> Iterator[tuple[str, Inline]]:
    """Yield remedies, those that hold on the same revisions for the same reason in one row."""
    shown = found.remedies[:_REMEDIES_SHOWN]
    for number, (key, group) in enumerate(groupby(shown, key=lambda remedy: (remedy.verified_on, remedy.explanation))):
        changes = ", or ".join(remedy.text for remedy in group)
        holds = ", ".join(revision.name for revision in key[0])
        yield "" if number else "remedy", [Span(changes, "strong"), f": works on {holds}. {key[1]}"]
