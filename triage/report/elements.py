"""Phrases and blocks that several reports share: revisions, failures, outcomes, facts
tables, plurals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.outcome import Failure
from triage.model.probe_result import ProbeResult
from triage.model.revision import FamilyRef, Revision
from triage.report.document import (
    Block,
    Code,
    Details,
    Fact,
    Facts,
    Inline,
    Paragraph,
    Phrase,
    Span,
    Style,
)
from triage.toolchains.home import KeptKind, default_home

if TYPE_CHECKING:
    from triage.compilers.base import Compiler
    from triage.compilers.parts import IssueForm
    from triage.execution.results import KnownReleases

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
_ATTRIBUTE = re.compile(r"#[\w.]+<")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>]')
_LONGEST_ATTRIBUTE = 80  # characters
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
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def joined(spans: Iterable[str | Span], separator: str = ", ") -> Phrase:
    """Return spans with separators between them."""
    parts: Phrase = []
    for span in spans:
        parts += [separator, span] if parts else [span]
    return parts


def listed_facts(name: str, texts: Iterable[Inline]) -> Iterator[Fact]:
    """Yield a row for each text; only the first row shows the name."""
    for text in texts:
        yield name, text
        name = ""


def range_text(known: KnownReleases) -> str:
    """Return the names of neighbouring releases: `3.1.0`, or `3.1.0 to 3.6.0`."""
    if known.last == known.first:
        return known.first.name
    return f"{known.first.name} to {known.last.name}"


def unseen_text(failure: str, tried: Sequence[str]) -> str:
    """Say that a reported failure was not seen on the toolchains that were tried."""
    where = " and ".join(filter(None, (", ".join(tried[:-1]), *tried[-1:])))
    return f"the reported {failure} was not seen on {where}"


def revision_text(revision: Revision | None) -> str:
    """Return `3.4.0 (aacf93a3f9, 2025-04-30)` with the parts that are known."""
    if revision is None:
        return "?"
    short = (revision.commit or "")[:10]
    if short == revision.name:
        short = ""
    known = ", ".join(filter(None, (short, revision.date)))
    return f"{revision.name} ({known})" if known else revision.name


def headline_text(failure: Failure, longest: int = 180) -> str:
    """Return the failure's headline, shortened where it prints a long attribute, such
    as the description of a target.

    The failing pass comes first where the headline only says that a translation failed.
    """
    text = _without_long_attributes(failure.headline)
    if failure.failing_pass and text.startswith("failed to run translation"):
        text = f"{failure.failing_pass} failed: {text}"
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"


def _without_long_attributes(text: str) -> str:
    """Shorten the attributes of a message, and keep what stands behind them."""
    parts, end = [], 0
    for attribute in _ATTRIBUTE.finditer(text):
        if attribute.start() < end:  # inside the last one
            continue
        close = _closing_bracket(text, attribute.end())
        if close - attribute.end() > _LONGEST_ATTRIBUTE:
            parts += [text[end : attribute.end()], "…"]
            end = close
    return "".join([*parts, text[end:]])


def _closing_bracket(text: str, start: int) -> int:
    """Return where the bracket before `start` is closed; the end if it is not."""
    depth = 1
    for bracket in _BRACKETS.finditer(text, start):
        depth += {"<": 1, ">": -1}.get(bracket[0], 0)
        if depth == 0:
            return bracket.start()
    return len(text)


def failure_text(failure: Failure | None, longest: int = 180) -> str:
    """Return `class: headline`; empty without a failure."""
    if failure is None:
        return ""
    return f"{failure.failure_class}: {headline_text(failure, longest)}"


def numbers_text(failure: Failure) -> str:
    """Return the short captures that the headline lacks: `bytes used 286720 (280 KiB),
    bytes limit 65536 (64 KiB)`.
    """
    wrappers: tuple[str, ...] = ()
    if "name" in failure.details:  # the headline names an operator inside
        wrappers = ("op", "source_op")
    parts = []
    for name, value in failure.details.items():
        is_said = name in wrappers or str(value) in failure.headline
        if not is_said and len(str(value)) <= _LONGEST_DETAIL:
            parts.append(f"{name.replace('_', ' ')} {_quantity(name, value)}")
    return ", ".join(parts)


def _quantity(name: str, value: str | int) -> str:
    if isinstance(value, int) and _BYTES.search(name) and abs(value) >= 1024:
        if value % 64 == 0:
            return f"{value} ({value / 1024:g} KiB)"
        return f"{value} ({value / 1024:.1f} KiB)"
    return str(value)


def failure_facts(failure: Failure | None) -> Iterator[Fact]:
    """Yield a failure in one line, and the numbers that the line lacks."""
    if failure:
        yield "failure", failure_text(failure, 400)
        yield from _captured_facts(failure)


def _captured_facts(failure: Failure) -> Iterator[Fact]:
    """Yield what the headline lacks, as numbers if some of it is one."""
    text = numbers_text(failure)
    if text:
        has_number = any(map(str.isdigit, text))
        yield "numbers" if has_number else "details", text


def failure_blocks(
    failure: Failure,
    source: Path | None = None,
    compiler: str | None = None,
    place: str = "",
) -> list[Block]:
    """Return a failure in one line, what the line lacks, what helps, and the line of
    source at which it points; folded all details.

    compiler: the family (default: show the remedies of all); place: where the failure
    stands in a log.
    """
    phase = f"phase {failure.phase}" if failure.phase else None
    where = ", ".join(filter(None, (place, phase, failure.failing_pass)))
    facts = [*_captured_facts(failure)]
    if where:
        facts.append(("where", where))
    facts += listed_facts("helps", failure.advice(compiler))
    known = {
        "signature": failure.signature,
        "location": failure.location,
        **failure.details,
    }
    details = [
        (name.replace("_", " "), Span(str(value), "code"))
        for name, value in known.items()
        if value is not None
    ]
    headline = f"  {headline_text(failure, 400)}"
    blocks: list[Block] = [Paragraph([Span(failure.failure_class, "bad"), headline])]
    if facts:
        blocks.append(Facts(facts))
    excerpt = _source_excerpt(failure, source)
    if excerpt:
        blocks.append(Code(excerpt))
    return [*blocks, Details("Details", [Facts(details)])]


def _source_excerpt(failure: Failure, source: Path | None) -> str | None:
    """Return the source line that the location names with a caret below its column, if
    it is available.
    """
    location = re.fullmatch(r"(.*):(\d{1,9}):(\d{1,9})", failure.location or "")
    if location is None:
        return None
    # A generated input exists only where it was generated. A cached result of another
    # machine may name any file.
    generated = Path(location[1]).resolve()
    inputs = default_home().kept(KeptKind.INPUTS).resolve()
    is_kept = generated.is_relative_to(inputs) and generated.is_file()
    if is_kept and generated != source:
        path, name = generated, generated.name
        if source:
            prefix = "output of " if source.suffix == ".py" else ""
            name = prefix + source.name
    elif source and source.suffix != ".py":
        path, name = source, source.name
    else:
        return None
    number, column = int(location[2]), int(location[3])
    text = _line_of(path, number)
    if not text.strip():
        return None
    start = max(0, column - _LONGEST_LINE // 2)
    head = f"{name}:{number}: "
    return (
        f"{head}{text[start : start + _LONGEST_LINE]}\n"
        f"{' ' * (len(head) + column - 1 - start)}^"
    )


def _line_of(path: Path, number: int) -> str:
    """Return a line of a file; empty if there is none."""
    try:
        with path.open("rb") as lines:
            line = next(islice(lines, number - 1, None), b"") if number else b""
    except OSError:
        return ""
    return line.decode("utf-8", "replace").rstrip("\n")


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
    """Return cases of a recipe as one, if they differ in a single value."""
    rows = [name.partition("[")[2].removesuffix("]").split(",") for name in names]
    columns = list(zip(*rows, strict=False))
    differing = [at for at, column in enumerate(columns) if len(set(column)) > 1]
    lengths = set(map(len, rows))
    if len(differing) != 1 or len(lengths) > 1:
        return ", ".join(names)
    [at] = differing
    if not all("=" in pair for pair in columns[at]):
        return ", ".join(names)
    key = columns[at][0].partition("=")[0]
    values = ", ".join(pair.removeprefix(f"{key}=") for pair in columns[at])
    shown = [*rows[0][:at], f"{key}={values}", *rows[0][at + 1 :]]
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
    old, new = _public_name(form, before), _public_name(form, after)
    if form.repository and old and new:
        return f"{form.repository}/compare/{old}...{new}"
    return None


def _public_name(form: IssueForm, revision: Revision) -> str:
    """Return the commit or the tag of a revision; empty if neither is known."""
    if revision.commit:
        return revision.commit[:12]
    if form.tag and re.fullmatch(r"\d+(\.\d+)+", revision.name):
        return form.tag.format(revision.name)
    return ""


def compare_spans(compiler: str | None, before: Revision, after: Revision) -> Phrase:
    """Return a link to the commits between two revisions, in brackets; nothing where
    they are not public.
    """
    url = compare_url(compiler, before, after)
    return [" (", Span("compare", url=url), ")"] if url else []


def why_text(result: ProbeResult, *, short: bool = False) -> str:
    """Return why a case is untestable, or how it failed; empty if it passed.

    short: only the class of the failure.
    """
    if result.reason is not None:
        return result.reason
    if result.failure is None:
        return ""
    failure = result.failure
    text = failure.failure_class if short else failure_text(failure)
    return f"{text} (flaky)" if result.flaky else text


def outcome_text(result: ProbeResult) -> str:
    """Return `passed`, `failed: class: headline` or `untestable: reason`."""
    why, status = why_text(result), result.plain_status.value
    return f"{status}: {why}" if why else status


def outcome_spans(
    result: ProbeResult, *, short: bool = False, plain: bool = False
) -> Phrase:
    """Return the status in its colour, and why.

    plain: say `failed` also where the recipe expects the failure.
    """
    status = result.plain_status if plain else result.status
    spans: Phrase = [Span(status.value, STYLES[status])]
    why = why_text(result, short=short)
    if result.reason is not None:
        spans.append(Span(f"  {why}", "dim"))
    elif why:
        spans.append(f"  {why}")
    return spans
