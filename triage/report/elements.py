"""Phrases and blocks that several reports share: revisions, failures, outcomes, facts
tables, plurals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.outcome import Failure
from triage.model.probe_result import ProbeResult
from triage.model.revision import FamilyRef, Revision
from triage.report.document import (
    Block,
    Code,
    Details,
    Facts,
    Inline,
    Paragraph,
    Span,
    Style,
)
from triage.toolchains.home import KeptKind, default_home

if TYPE_CHECKING:
    from triage.compilers.base import Compiler
    from triage.compilers.parts import IssueForm

# : How the states of a case, a reproducer, a variant, a failure and a run time are
# shown.
STYLES: Mapping[str, Style] = {
    **dict.fromkeys(("passed", "fixed", "compiles", "faster"), "good"),
    **dict.fromkeys(
        ("failed", "changed", "fails", "fails otherwise", "slower", "error"), "bad"
    ),
    **dict.fromkeys(("untestable", "xpass", "too noisy", "warning"), "warning"),
    **dict.fromkeys(("reproduces", "the same", "advice"), "plain"),
    "xfail": "dim",
}
LANGUAGES = {
    ".mlir": "mlir",
    ".py": "python",
    ".pyx": "cython",
    ".c": "c",
    ".cpp": "cpp",
    ".cc": "cpp",
    ".cu": "cuda",
}
_ATTRIBUTE = re.compile(r"(#[\w.]+<).{80,}", re.DOTALL)
_BYTES = re.compile(r"(^|_)bytes(_|$)")
_LONGEST_LINE = 160
_LONGEST_DETAIL = 40  # characters


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Return `1 case`, `2 cases`; `several` is the plural where it is irregular."""
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"


def names_text(names: Sequence[str], most: int) -> str:
    """Return the first names.

    >>> names_text(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    if len(names) > most:
        more = f" and {len(names) - most} more"
    else:
        more = ""
    return ", ".join(names[:most]) + more


def joined(spans: Iterable[str | Span], separator: str = ", ") -> list[str | Span]:
    """Return spans with separators between them."""
    return [part for span in spans for part in (separator, span)][1:]


def duration_text(seconds: float) -> str:
    """Return a time in the unit that a person would choose.

    >>> [duration_text(seconds) for seconds in (0.2, 20, 300, 5400, 7200)]
    ['1 s', '20 s', '5 min', '1.5 h', '2 h']
    """
    if seconds < 100:
        if seconds >= 1:
            return f"{seconds:.0f} s"
        return "1 s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{seconds / 3600:.1f}".removesuffix(".0") + " h"


def revision_text(revision: Revision | None) -> str:
    """Return `3.4.0 (aacf93a3f9, 2025-04-30)` with the parts that are known."""
    if revision is None:
        return "?"
    if revision.commit and revision.commit[:10] != revision.name:
        short = revision.commit[:10]
    else:
        short = None
    known = [part for part in (short, revision.date) if part]
    if known:
        return f"{revision.name} ({', '.join(known)})"
    return revision.name


def headline_text(failure: Failure, longest: int = 180) -> str:
    """Return the failure's headline, shortened where it prints a long attribute, such
    as the description of a target.

    The failing pass comes first where the headline only says that a translation failed.
    """
    text = _ATTRIBUTE.sub(r"\1…", failure.headline)
    if failure.failing_pass and text.startswith("failed to run translation"):
        text = f"{failure.failing_pass} failed: {text}"
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"


def failure_text(failure: Failure, longest: int = 180) -> str:
    """Return `class: headline`."""
    return f"{failure.failure_class}: {headline_text(failure, longest)}"


def numbers_text(failure: Failure) -> str:
    """Return the short captures that the headline lacks: `bytes used 286720 (280 KiB),
    bytes limit 65536 (64 KiB)`.
    """
    wrappers: tuple[str, ...] = ()
    if "name" in failure.details:  # the headline names an operator inside
        wrappers = ("op", "source_op")
    details = (
        (name, value) for name, value in failure.details.items() if name not in wrappers
    )
    missing = (
        (name, value) for name, value in details if str(value) not in failure.headline
    )
    short = (
        (name, value) for name, value in missing if len(str(value)) <= _LONGEST_DETAIL
    )
    return ", ".join(
        f"{name.replace('_', ' ')} {_quantity(name, value)}" for name, value in short
    )


def _quantity(name: str, value: str | int) -> str:
    if isinstance(value, int) and _BYTES.search(name) and abs(value) >= 1024:
        if value % 64 == 0:
            return f"{value} ({value / 1024:g} KiB)"
        return f"{value} ({value / 1024:.1f} KiB)"
    return str(value)


def failure_facts(failure: Failure | None) -> Iterator[tuple[str, Inline]]:
    """Yield a failure in one line, and the numbers that the line lacks."""
    if failure:
        yield "failure", failure_text(failure, 400)
        numbers = numbers_text(failure)
        if numbers:
            yield "numbers", numbers


def failure_blocks(
    failure: Failure,
    source: Path | None = None,
    compiler: str | None = None,
    place: str = "",
) -> list[Block]:
    """Return one failure in one line, what the line lacks, what helps, the source line
    it points at, and folded all details.

    compiler: the family (default: show the remedies of all); place: where the failure
    stands in a log.
    """
    where = ", ".join(
        part
        for part in (
            place,
            failure.phase and f"phase {failure.phase}",
            failure.failing_pass,
        )
        if part
    )
    facts = [
        (name, text)
        for name, text in (("numbers", numbers_text(failure)), ("where", where))
        if text
    ]
    facts += [
        ("" if number else "helps", text)
        for number, text in enumerate(failure.advice(compiler))
    ]
    excerpt = _source_excerpt(failure, source)
    known = {
        "signature": failure.signature,
        "location": failure.location,
        **failure.details,
    }
    rows = [
        (name.replace("_", " "), Span(str(value), "code"))
        for name, value in known.items()
        if value is not None
    ]
    return [
        Paragraph(
            [Span(failure.failure_class, "bad"), f"  {headline_text(failure, 400)}"]
        ),
        *([Facts(facts)] if facts else []),
        *([Code(excerpt)] if excerpt else []),
        Details("Details", [Facts(rows)]),
    ]


def _source_excerpt(failure: Failure, source: Path | None) -> str | None:
    """Return the source line that the location names with a caret below its column, if
    it is available.
    """
    location = re.fullmatch(r"(.*):(\d{1,9}):(\d{1,9})", failure.location or "")
    if location is None:
        return None
    # A generated input exists only where it was generated. A cached result of another
    # machine may name any file.
    named = Path(location[1]).resolve()
    path = source
    inputs = default_home().kept(KeptKind.INPUTS).resolve()
    if named.is_relative_to(inputs) and named.is_file():
        path = named
    if path is None or (path == source and source.suffix == ".py"):
        return None
    if source in (None, path):
        name = path.name
    elif source.suffix == ".py":
        name = f"output of {source.name}"
    else:
        name = source.name
    number, column = int(location[2]), int(location[3])
    try:
        with path.open("rb") as lines:
            line = next(
                (text for count, text in enumerate(lines, 1) if count == number), b""
            )
    except OSError:
        return None
    text = line.decode("utf-8", "replace").rstrip("\n")
    if not text.strip():
        return None
    start = max(0, column - _LONGEST_LINE // 2)
    head = f"{name}:{number}: "
    return (
        f"{head}{text[start : start + _LONGEST_LINE]}\n"
        f"{' ' * (len(head) + column - 1 - start)}^"
    )


def cases_text(names: Sequence[str]) -> str:
    """Return names of cases, those that differ in one value together.

    >>> cases_text(["softmax", "delta-rule[num_warps=8]", "delta-rule[num_warps=16]"])
    'softmax, delta-rule[num_warps=8, 16]'
    """
    recipes: dict[str, list[str]] = {}
    for name in names:
        recipes.setdefault(name.partition("[")[0], []).append(name)
    return ", ".join(_together(recipe, group) for recipe, group in recipes.items())


def _together(recipe: str, names: Sequence[str]) -> str:
    columns = list(
        zip(
            *(name.partition("[")[2].removesuffix("]").split(",") for name in names),
            strict=False,
        )
    )
    differing = [column for column in columns if len(set(column)) > 1]
    lengths = {name.count(",") for name in names}
    if (
        len(differing) != 1
        or len(lengths) > 1
        or not all("=" in part for part in differing[0])
    ):
        return ", ".join(names)
    key = differing[0][0].partition("=")[0]
    values = f"{key}={', '.join(part.removeprefix(f'{key}=') for part in differing[0])}"
    shown = (values if column is differing[0] else column[0] for column in columns)
    return f"{recipe}[{','.join(shown)}]"


def _family(compiler: str | None) -> Compiler | None:
    from triage.compilers.registry import Families  # slow to import

    return Families().get(compiler or "")


def issue_form(compiler: str | None) -> IssueForm:
    """Return the form for bug reports of a compiler family; the plain one where the
    family is not known.
    """
    from triage.compilers.parts import IssueForm

    family = _family(compiler)
    return family.issue_form if family else IssueForm()


def compiler_title(compiler: str | None) -> str:
    """Return how people write the name of a compiler family."""
    family = _family(compiler)
    return (family.title if family else "") or FamilyRef.parse(compiler or "").title


def compare_url(compiler: str | None, before: Revision, after: Revision) -> str | None:
    """Return the page with the commits between two revisions of a compiler, if they are
    public.
    """
    form = issue_form(compiler)
    if not form.repository:
        return None
    tags = (
        form.tag.format(one.name) if re.fullmatch(r"\d+(\.\d+)+", one.name) else ""
        for one in (before, after)
    )
    places = [
        (one.commit or "")[:12] or tag
        for one, tag in zip((before, after), tags, strict=True)
    ]
    if all(places):
        return f"{form.repository}/compare/{'...'.join(places)}"
    return None


def compare_spans(
    compiler: str | None, before: Revision, after: Revision
) -> list[str | Span]:
    """Return a link to the commits between two revisions, in brackets; nothing where
    they are not public.
    """
    url = compare_url(compiler, before, after)
    if url:
        return [" (", Span("compare", url=url), ")"]
    return []


def why_text(result: ProbeResult, *, short: bool = False) -> str:
    """Return why a case is untestable, or how it failed; empty if it passed.

    short: only the class of the failure.
    """
    if result.reason is not None:
        return result.reason
    if result.failure is None:
        return ""
    if short:
        text = result.failure.failure_class
    else:
        text = failure_text(result.failure)
    if result.flaky:
        text += " (flaky)"
    return text


def outcome_text(result: ProbeResult) -> str:
    """Return `passed`, `failed: class: headline` or `untestable: reason`."""
    why = why_text(result)
    if why:
        return f"{result.plain_status.value}: {why}"
    return result.plain_status.value


def outcome_spans(
    result: ProbeResult, *, short: bool = False, plain: bool = False
) -> list[str | Span]:
    """Return the status in its colour, and why.

    plain: whatever the recipe expects.
    """
    if plain:
        status = result.plain_status
    else:
        status = result.status
    why = why_text(result, short=short)
    spans: list[str | Span] = [Span(status.value, STYLES[status])]
    if result.reason is not None:
        spans.append(Span(f"  {why}", "dim"))
    elif why:
        spans.append(f"  {why}")
    return spans
