"""MLIR as a compiler prints it, where no tool reads it: one operation a line, values by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from triage.mlir.tree import split
from triage.reduce.draft import Draft
from triage.reduce.frontends.text.document import Span, TextDocument
from triage.reduce.search import InterestingnessTest, greedily, minimise

_VALUE = re.compile(r"%[\w$.-]+")
_MADE = re.compile(r"\s*(%[\w$.-]+(?::\d+)?(?:,\s*%[\w$.-]+(?::\d+)?)*)\s*=\s*([\w.]+)")
_LOCATION = re.compile(r"\s*loc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\))*\)")
_ALIAS = re.compile(r"#loc\d* = ")
_SAME_TYPE = re.compile(r"(?:arith|math)\.(?!cmp)|tt\.addptr$")  # operations whose one type, or first, is their result's
_DIMENSION = re.compile(r"[<x](\d+)(?=x)")


@dataclass(frozen=True, slots=True)
class Piece:
    """An operation, with the lines of its regions. made, used: names of values; type: of its one result where that is told."""

    span: Span
    made: tuple[str, ...]
    used: tuple[str, ...]
    type: str | None


def without_locations(lines: Iterable[str]) -> list[str]:
    """The lines without where each operation came from, which is half of what is printed."""
    return [_LOCATION.sub("", line) for line in lines if not _ALIAS.match(line)]


def pieces(lines: Sequence[str]) -> list[Piece]:
    """The operations that make or use values, those of regions after what they stand in."""
    found = []
    for at, line in enumerate(lines):
        names = tuple(_VALUE.findall(line))
        if names and "func" not in line.split("(")[0]:
            head = _MADE.match(line)
            made = tuple(_VALUE.findall(head[1])) if head else ()
            found.append(Piece((at, _end(lines, at)), made, names[len(made) :], _type(line, head[2]) if head else None))
    return found


def _end(lines: Sequence[str], at: int) -> int:
    """The line after an operation: after its closing bracket where it opens a region."""
    if not lines[at].rstrip().endswith("{"):
        return at + 1
    width = len(lines[at]) - len(lines[at].lstrip())
    closing = (n for n in range(at + 1, len(lines)) if lines[n].startswith(" " * width + "}"))
    return next(closing, at) + 1


def _type(line: str, name: str) -> str | None:
    _, arrow, result = line.rpartition(" -> ")
    if arrow:
        return result.strip()
    types = split(line.rpartition(" : ")[2]) if " : " in line else []
    return types[0] if types and _SAME_TYPE.match(name) else None


def undefined(lines: Sequence[str]) -> bool:
    """Whether a value is used that nothing before it makes."""
    known: set[str] = set()
    for line in lines:
        head = _MADE.match(line)
        made = _VALUE.findall(head[1]) if head else []
        rest = line[head.end(1) :] if head else line
        binds = line.rstrip().endswith("{") or line.lstrip().startswith("^")  # arguments of a function, a block, a loop
        known |= set(_VALUE.findall(rest)) if binds else set()
        if not set(_VALUE.findall(rest)) <= known:
            return True
        known |= set(made)
    return False


def drop_operations(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop operations with all that uses their results."""
    document = _text(draft)
    items = pieces(document.lines)

    def build(kept: Sequence[Piece]) -> Draft | None:
        gone = [one for one in items if one not in set(kept)]
        lost = {name for one in gone for name in one.made}
        for one in items:
            if lost & set(one.used) and one not in gone:
                gone.append(one)
                lost |= set(one.made)
        return _but(draft, {at for one in gone for at in range(*one.span)})

    _, found = minimise(items, build, hunt, whole=False)
    return found or draft


def bypass_operations(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop an operation and let an earlier value of its result's type stand for the result."""
    return greedily(draft, hunt, _bypasses)


def _bypasses(draft: Draft) -> Iterator[Draft]:
    lines = _text(draft).lines
    items = pieces(lines)
    types = {one.made[0]: one.type for one in items if len(one.made) == 1 and one.type}
    for at, one in reversed(list(enumerate(items))):
        if len(one.made) != 1 or one.type is None:
            continue
        before = [other.made[0] for other in items[:at] if len(other.made) == 1 and types.get(other.made[0]) == one.type]
        for other in list(dict.fromkeys([*(name for name in one.used if name in before), *before[-1:]])):
            replaced = [re.sub(rf"{re.escape(one.made[0])}(?![\w$.-])", other.replace("\\", ""), line) for line in lines]
            gone = set(range(*one.span))
            yield _with(draft, [line for number, line in enumerate(replaced) if number not in gone])


def drop_arguments(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop the arguments of functions that nothing uses."""
    return greedily(draft, hunt, _shorter_heads)


def _shorter_heads(draft: Draft) -> Iterator[Draft]:
    lines = list(_text(draft).lines)
    used = [name for line in lines for name in _VALUE.findall(line)]
    for at, line in enumerate(lines):
        found = re.match(r"(\s*[\w.]*func\b[^(]*\()(.*)(\).*\{\s*)$", line)
        if found is None:
            continue
        inside, rest = found[2], found[3]
        if ") attributes" in inside:
            inside, _, more = inside.partition(") attributes")
            rest = f") attributes{more}{rest}"
        given = split(inside)
        for one in given:
            name = _VALUE.match(one)
            if name and used.count(name[0]) == 1:
                head = f"{found[1]}{', '.join(other for other in given if other is not one)}{rest}"
                yield _with(draft, [*lines[:at], head, *lines[at + 1 :]])


def shrink_numbers(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Halve the sizes of shapes: all of one value together, in ranges and constants as well."""
    return greedily(draft, hunt, _smaller_numbers)


def _smaller_numbers(draft: Draft) -> Iterator[Draft]:
    text = "\n".join(_text(draft).lines)
    for value in sorted({int(one) for one in _DIMENSION.findall(text)}, reverse=True):
        if value >= 4:
            same = rf"(?<=[<x]){value}(?=x)|(?<=end = ){value}\b|(?<=constant ){value}\b|(?<=dense<){value}\b"
            yield _with(draft, re.sub(same, str(value // 2), text).split("\n"))


def _but(draft: Draft, gone: set[int]) -> Draft | None:
    left = [line for at, line in enumerate(_text(draft).lines) if at not in gone]
    return _with(draft, left) if left else None


def _with(draft: Draft, lines: Sequence[str]) -> Draft:
    document = _text(draft)
    return Draft(TextDocument(lines, document.kind, document.suffix), draft.case)


def _text(draft: Draft) -> TextDocument:
    assert isinstance(draft.document, TextDocument)
    return draft.document
