"""Documents of `triage attribute`, the pass after which two compilers diverge, and of
`triage why`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

from triage.attribute.excerpt import diff
from triage.attribute.result import Attribution, ComparisonResult, DivergingPass
from triage.bisect.result import Answer, Bisection
from triage.classify import ClassifiedLogs
from triage.model.execution import Stage
from triage.remedy.result import Remedies
from triage.report.bisection import verdict_text
from triage.report.document import (
    Block,
    Code,
    Document,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Span,
    Style,
)
from triage.report.elements import compiler_title, failure_facts, plural, revision_text
from triage.report.formats import rendered
from triage.report.tables import classify_document
from triage.toolchains.home import save_file

if TYPE_CHECKING:
    from triage.investigate.explanation import Explanation, KnownReleases

_MAX_LINES = 80  # of IR
_MAX_NAMES = 6


def attribution_document(found: Attribution) -> Document:
    """Show the pass after which two compilers diverge, with the IR of both."""
    answer = sentence(found)
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
        if len(lines) > _MAX_LINES or excerpt.cut:
            blocks.append(Paragraph(Span("the rest is left out", "dim")))
    return Document(f"{found.case}: {answer}", blocks)


def write_attribution(found: Attribution, folder: Path) -> Path:
    """Write `attribution.html` into a folder and return its path."""
    path = folder / "attribution.html"
    save_file(
        path,
        rendered("html", found, attribution_document),
        f"write the page to {folder}",
    )
    return path


def sentence(found: Attribution) -> str:
    """Return the answer in one sentence, without the case's name."""
    good, bad = found.good.name, found.bad.name
    match found.status:
        case ComparisonResult.DIVERGES:
            if found.other and len(found.passes) > 1:
                return (
                    f"not sure: {good} and {bad} diverge after {found.passes[0]} or "
                    f"after {found.passes[1]}"
                )
            if not found.is_sure:
                between = ""
                if found.commits_between:
                    lie = plural(found.commits_between, "commit")
                    between = f"; {lie} between them may each differ"
                return (
                    f"not sure: nothing fails, and {good} and {bad} first diverge "
                    f"after {found.passes[0]}{between}"
                )
            return f"{good} and {bad} diverge after {found.passes[0]}"
        case ComparisonResult.FAILING:
            if found.failure and found.failure.stage is not Stage.COMPILE:
                where = "after the last pass, in a large constant, or in the runtime"
                return (
                    f"{good} and {bad} produce the same IR after every pass; the "
                    f"change is {where}"
                )
            if found.passes:
                name = found.passes[0]
            else:
                name = "the failing step, which is not a pass"
            return (
                f"{good} and {bad} produce the same IR up to {name}; the change is in "
                "there"
            )
        case ComparisonResult.SAME:
            return f"{good} and {bad} produce the same IR after every pass"
        case ComparisonResult.INCONCLUSIVE:
            return f"cannot compare: {found.reason}"


def _facts(found: Attribution) -> Iterator[tuple[str, Inline]]:
    yield "good", revision_text(found.good)
    yield "bad", revision_text(found.bad)
    yield from failure_facts(found.failure)
    if found.failure:
        failing = found.failure.failing_pass
        if found.failing:
            failing = found.failing.name
        where = ", ".join(part for part in (found.failure.phase, failing) if part)
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
            if not found.function:  # only names of passes are known
                continue
            yield from (
                ("" if number else "right after it", text)
                for number, text in enumerate(differing_lines(diverging))
            )
    for number, path in enumerate(found.files):
        yield "" if number else "source", path
    if any(found.shared_memory_bytes.values()):
        counts = (found.shared_memory_bytes[side] for side in ("good", "bad"))
        good, bad = (
            "an unknown number of" if count is None else str(count) for count in counts
        )
        yield (
            "shared memory",
            f"{good} bytes on {found.good.name}, {bad} bytes on {found.bad.name}",
        )
    yield from (("note", note) for note in found.notes)
    yield (
        "cost",
        (
            f"{plural(found.compiles, 'compile')}, "
            f"{found.printed_bytes / (1 << 20):.1f} MiB of IR read, "
            f"{found.seconds:.1f} s"
        ),
    )


def differing_lines(diverging: DivergingPass) -> Iterator[str]:
    """Yield one line for each kind of difference after a pass."""
    yield from (
        f"{choice.name}: {choice.good} -> {choice.bad}"
        for choice in diverging.choices[:_MAX_NAMES]
    )
    if diverging.operations:
        by_size = sorted(
            diverging.operations,
            key=lambda count: -abs(int(count.good) - int(count.bad)),
        )
        if len(by_size) > _MAX_NAMES:
            more = f" and {len(by_size) - _MAX_NAMES} more"
        else:
            more = ""
        yield (
            ", ".join(
                f"{count.name} {count.good} -> {count.bad}"
                for count in by_size[:_MAX_NAMES]
            )
            + more
        )
    if not diverging.choices and not diverging.operations:
        yield "the same operations with other types or other nesting"


def _pass_text(diverging: DivergingPass, found: Attribution) -> str:
    text = f"{diverging.name}{f' ({diverging.argument})' if diverging.argument else ''}"
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
        blocks: list[Block] = [Paragraph(reason)]
        blocks += classify_document(ClassifiedLogs([found.log])).blocks
    else:
        blocks = [
            Paragraph(
                [
                    Span(found.case, "strong"),
                    _target(found),
                    ": ",
                    Span(headline(found), _STYLES.get(found.status, "warning")),
                ]
            )
        ]
        blocks += [Facts(list(why_facts(found)))]
    if found.next:
        blocks += [Paragraph(Span("Next", "strong")), Code("\n".join(found.next))]
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
    if found.passes:
        before = f"; fails on {found.fails_on.name}" if found.fails_on else ""
        return f"passes on {name}{before}"
    if found.reads:
        verb = "passes" if found.failure is None else "fails"
        known = f"{found.reads.name} is the newest release known to read it"
        return f"{name} cannot read this program; {known}, and it {verb} there"
    if found.failure and found.toolchain == found.fails_on:
        return f"fails on {name}"
    return f"cannot be tested on {name}"


def why_facts(found: Explanation) -> Iterator[tuple[str, Inline]]:
    """Yield what each step found."""
    if found.reason:
        yield "releases" if found.passes else "reason", found.reason
    values = [one for one in found.assumed if ": " in one]
    if values:
        yield "assumed", ", ".join(values)
    if len(found.releases) > 1 or not found.failure:
        known = [_known_text(one) for one in reversed(found.releases)]
        if known:
            yield "releases", "; ".join(known)
    yield from failure_facts(found.failure)
    if found.bisection:
        yield from _since(found, found.bisection)
    attribution = found.attribution
    if attribution:
        yield (
            "pass",
            (
                f"{sentence(attribution)}"
                f"{f' (phase {attribution.phase})' if attribution.phase else ''}"
            ),
        )
        if attribution.persistent:
            yield "", next(differing_lines(attribution.persistent))
    if found.remedies:
        yield from _remedies(found.remedies)
    yield from (
        ("" if number else "advice", text) for number, text in enumerate(found.advice)
    )
    for step in found.left:
        yield (
            ("not done", f"{step.step}: {step.reason}")
            if step.status == "left"
            else (step.step, step.reason or "")
        )


def _known_text(known: KnownReleases) -> str:
    """Say how a case ended on neighbouring releases."""
    name = known.first.name
    if known.last != known.first:
        name = f"{name} to {known.last.name}"
    match known.outcome:
        case "passed":
            return f"passes on {name}"
        case "failed":
            return f"fails on {name}"
        case "untestable":
            return f"cannot be tested on {name}"
    return f"not tried on {name}"


def _since(found: Explanation, bisection: Bisection) -> Iterator[tuple[str, Inline]]:
    if bisection.status is Answer.INCONCLUSIVE:
        # options of `triage bisect`
        reason = (bisection.reason or "not known").partition("; pass --")[0]
        yield (
            "releases",
            reason.partition(": ")[0] if "at both ends" in reason else reason,
        )
    else:
        if bisection.confirmed:
            certainty = "confirmed by probing both again"
        else:
            certainty = "not confirmed"
        name = "since" if bisection.brought_failure else "fixed"
        yield (
            name,
            f"{verdict_text(bisection, compiler_title(found.compiler))}; {certainty}",
        )
    if bisection.brought_failure:
        pair = found.broke
        if pair:
            yield "last good", revision_text(pair[0])
    if found.fixed:
        yield "upgrade", f"it passes on {found.fixed.name}"


def _remedies(found: Remedies) -> Iterator[tuple[str, Inline]]:
    """Yield remedies, those that hold on the same revisions for the same reason in one
    row.
    """
    shown = found.remedies[:_REMEDIES_SHOWN]
    for number, (key, group) in enumerate(
        groupby(shown, key=lambda remedy: (remedy.verified_on, remedy.explanation))
    ):
        changes = ", or ".join(remedy.text for remedy in group)
        holds = ", ".join(revision.name for revision in key[0])
        yield (
            "" if number else "remedy",
            [Span(changes, "strong"), f": works on {holds}. {key[1]}"],
        )
