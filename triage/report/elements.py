"""Phrases and blocks that several reports share: revisions, failures, outcomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.outcome import Failure, ProbeResult
from triage.model.revision import Revision
from triage.report.document import (
    Block,
    Fact,
    Inline,
    Phrase,
    Span,
    Style,
    facts,
)

if TYPE_CHECKING:
    from triage.compilers.base import IssueForm

# How the states of a case, a reproducer, a variant, a failure and a run time are shown.
STYLES: Mapping[str, Style] = {
    **dict.fromkeys(("passed", "fixed", "faster"), "good"),
    **dict.fromkeys(("failed", "changed", "slower", "error"), "bad"),
    **dict.fromkeys(("untestable", "xpass", "too noisy", "warning"), "warning"),
    **dict.fromkeys(("reproduces", "the same", "advice"), "plain"),
    "xfail": "dim",
}
_LONGEST_DETAIL = 40  # characters
_NAMES_SHOWN = 12  # toolchains
_GENERATED = re.compile(r"^[0-9a-f]{32,}(?=\.)")


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Return `1 case`, `2 cases`; `several` is the plural where it is irregular."""
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"


def names_text(names: Sequence[str], most: int) -> str:
    """Return the first names.

    >>> names_text(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    more = ""
    if len(names) > most:
        more = f" and {len(names) - most} more"
    return ", ".join(names[:most]) + more


def range_text(names: Sequence[str]) -> str:
    """Return the first and the last name: `3.1.0`, or `3.1.0 to 3.6.0`."""
    return " to ".join(dict.fromkeys((names[0], names[-1])))


def grouped_facts(name: str, results: Iterable[ProbeResult]) -> Iterator[Fact]:
    """Yield a row for neighbouring results of which the same is said, with their
    toolchains.
    """
    for text, group in groupby(results, key=why_text):
        names = [result.toolchain.name for result in group]
        yield name, f"{names_text(names, _NAMES_SHOWN)}: {text}"


def listed_facts(name: str, texts: Iterable[Inline]) -> Iterator[Fact]:
    """Yield a row for each text; only the first row shows the name."""
    for text in texts:
        yield name, text
        name = ""


def revision_text(revision: Revision | None) -> str:
    """Return `3.4.0 (aacf93a3f9, 2025-04-30)` with the parts that are known."""
    if revision is None:
        return "?"
    short = (revision.commit or "")[:10]
    if short == revision.name:
        short = ""
    details = ", ".join(filter(None, (short, revision.date)))
    if details:
        return f"{revision.name} ({details})"
    return revision.name


def headline_text(failure: Failure, longest: int = 400) -> str:
    """Return the failure's headline, at most so many characters of it."""
    text = failure.headline
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"


def failure_text(failure: Failure | None, longest: int = 400) -> str:
    """Return `class: headline`; empty without a failure."""
    if failure is None:
        return ""
    return f"{failure.failure_class}: {headline_text(failure, longest)}"


def failure_facts(failure: Failure | None) -> Iterator[Fact]:
    """Yield a failure in one line, and the numbers that the line lacks."""
    if failure:
        yield "failure", failure_text(failure)
        yield _captured_fact(failure)


def failure_details(failure: Failure, place: str = "") -> Iterator[Fact]:
    """Yield what the headline of a failure lacks, and where it fails. place: where it
    stands in a log.
    """
    yield _captured_fact(failure)
    phase = f"phase {failure.phase}" if failure.phase else None
    location = (failure.location or "").rpartition("/")[2]
    location = _GENERATED.sub("input", location).removesuffix(":0:0")
    where = (place, phase, failure.failing_pass, location)
    yield "where", ", ".join(filter(None, where))


def _captured_fact(failure: Failure) -> Fact:
    """Return the short captures that the headline lacks."""
    texts = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in failure.details.items()
        if str(value) not in failure.headline and len(str(value)) <= _LONGEST_DETAIL
    ]
    return "details", ", ".join(texts)


def failure_blocks(
    failure: Failure, compiler: str | None = None, place: str = ""
) -> list[Block]:
    """Return a failure in one line, and below it what the line lacks and what helps.
    compiler: the family (default: show the remedies of all).
    """
    headline = f"  {headline_text(failure)}"
    title: Phrase = [Span(failure.failure_class, "bad"), headline]
    helps = listed_facts("helps", failure.advice(compiler))
    return [title, facts([*failure_details(failure, place), *helps])]


def compiler_title(compiler: str | None) -> str:
    """Return how people write the name of a compiler family."""
    from triage.compilers.registry import family_title  # slow to import

    return family_title(compiler)


def issue_form(compiler: str | None) -> IssueForm:
    """Return the form for bug reports of a compiler family; the plain one where the
    family is not known.
    """
    from triage.compilers.base import IssueForm
    from triage.compilers.registry import Families

    family = Families().get(compiler or "")
    if family:
        return family.issue_form
    return IssueForm()


def compare_url(compiler: str | None, before: Revision, after: Revision) -> str | None:
    """Return the page with the commits between two revisions of a compiler, if they are
    public.
    """
    form = issue_form(compiler)
    names = []
    for revision in (before, after):
        if revision.commit:
            names.append(revision.commit[:12])
        elif form.tag and re.fullmatch(r"\d+(\.\d+)+", revision.name):
            names.append(form.tag.format(revision.name))
    if form.repository and len(names) == 2:
        return f"{form.repository}/compare/{'...'.join(names)}"
    return None


def why_text(result: ProbeResult, *, short: bool = False) -> str:
    """Return why a case is untestable, or how it failed; empty if it passed.

    short: only the class of the failure.
    """
    if result.reason is not None:
        location = result.failure.location if result.failure else None
        if location:
            return f"{result.reason} ({Path(location).name})"
        return result.reason
    if result.failure is None:
        return ""
    text = result.failure.failure_class if short else failure_text(result.failure)
    if result.flaky:
        return f"{text} (flaky)"
    return text


def outcome_text(result: ProbeResult) -> str:
    """Return `passed`, `failed: class: headline` or `untestable: reason`."""
    return ": ".join(filter(None, (result.plain_status.value, why_text(result))))


def outcome_spans(
    result: ProbeResult, *, short: bool = False, plain: bool = False
) -> Phrase:
    """Return the status in its colour, and why.

    plain: say `failed` also where the recipe expects the failure.
    """
    status = result.plain_status if plain else result.status
    spans: Phrase = [Span(status.value, STYLES[status])]
    why = why_text(result, short=short)
    if why:
        spans.append(Span(f"  {why}", "plain" if result.reason is None else "dim"))
    return spans
