"""Reduces text by blocks of indentation and lines; printed MLIR that no tool reads also by operations and values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.mlir.tree import split
from triage.model.case import InputKind
from triage.reduce.draft import Document, Draft, Frontend, InterestingnessTest, greedily, minimise
from triage.reduce.frontends.case_settings import drop_flags, drop_options, fewer_devices

LineRange = tuple[int, int]
_PRINTED_MLIR = ("ttir", "ttgir", "mlir")
_DEEPEST = 6  # levels of indentation; deeper lines are dropped one by one
_VALUE = re.compile(r"%[\w$.-]+")
_RESULTS = re.compile(r"\s*(%[\w$.-]+(?::\d+)?(?:,\s*%[\w$.-]+(?::\d+)?)*)\s*=\s*([\w.]+)")
_FUNCTION = re.compile(r"(\s*[\w.]*func\b[^(]*\()(.*)(\).*\{\s*)$")
_LOCATION = re.compile(r"\s*loc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\))*\)")
_LOCATION_ALIAS = re.compile(r"#loc\d* = ")
_SAME_TYPE = re.compile(r"(?:arith|math)\.(?!cmp)|tt\.addptr$")  # operations whose (first) operand has the result's type
_DIMENSION = re.compile(r"[<x](\d+)(?=x)")


class TextDocument:
    """The lines of a file that are not empty."""

    unit = "line"

    def __init__(self, lines: Sequence[str], kind: InputKind, suffix: str) -> None:
        self.lines = tuple(lines)
        self.kind, self.suffix = kind, suffix

    @property
    def content(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode("utf-8", "surrogateescape")

    @property
    def size(self) -> int:
        return len(self.lines)


class TextFrontend(Frontend):
    """Any text file."""

    def __init__(self, kind: InputKind, suffix: str) -> None:
        self._kind, self._suffix = kind, suffix
        self._is_mlir = suffix in _PRINTED_MLIR
        self._check_values = False  # whether the original defines every value that it uses
        self.passes = (
            *(_MLIR_PASSES if self._is_mlir else ()),
            drop_blocks,
            drop_lines,
        )
        self.final_passes = (*((shrink_numbers,) if self._is_mlir else ()), fewer_devices, drop_flags, drop_options)

    def open(self, path: Path) -> Sequence[Document]:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        self._check_values = self._is_mlir and not has_undefined_values(without_locations(lines))
        plain = [without_locations(lines)] if self._is_mlir and "loc(" in text else []
        return [TextDocument(chosen, self._kind, self._suffix) for chosen in (*plain, lines)]

    def valid(self, document: Document) -> bytes | None:
        """Reject only what uses undefined values; nothing else is known about text."""
        assert isinstance(document, TextDocument)
        if self._check_values and has_undefined_values(document.lines):
            return None
        return document.content or None


def drop_blocks(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop whole blocks, the outermost first."""
    for depth in range(_DEEPEST):
        ranges = blocks(_lines(draft), depth)
        draft = _drop_ranges(draft, test, ranges) if len(ranges) > 1 else draft
    return draft


def drop_lines(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop lines, halves of the text before single ones."""
    return _drop_ranges(draft, test, [(index, index + 1) for index in range(len(_lines(draft)))])


def blocks(lines: Sequence[str], depth: int) -> list[LineRange]:
    """Return the blocks at a level of indentation, counted from 0: a line, the deeper lines after it and the closing
    bracket.
    """
    widths = [len(line) - len(line.lstrip()) for line in lines]
    levels = sorted(set(widths))
    if depth >= len(levels):
        return []
    ranges: list[LineRange] = []
    index = 0
    while index < len(lines):
        if widths[index] != levels[depth]:
            index += 1
            continue
        end = index + 1
        while end < len(lines) and widths[end] > widths[index]:
            end += 1
        if end - index > 1 and end < len(lines) and widths[end] == widths[index] and lines[end].lstrip()[:1] in ("}", ")", "]"):
            end += 1
        ranges.append((index, end))
        index = end
    return ranges


def _drop_ranges(draft: Draft, test: InterestingnessTest, ranges: Sequence[LineRange]) -> Draft:
    return minimise(draft, ranges, lambda kept: _without(draft, set(ranges) - set(kept)), test, whole=False)


@dataclass(frozen=True, slots=True)
class PrintedOperation:
    """An operation with the lines of its regions. results, operands: names of values. type: of its only result, if known."""

    lines: LineRange
    results: tuple[str, ...]
    operands: tuple[str, ...]
    type: str | None


def without_locations(lines: Iterable[str]) -> list[str]:
    """Return the lines without source locations, which are half of the text."""
    return [_LOCATION.sub("", line) for line in lines if not _LOCATION_ALIAS.match(line)]


def operations(lines: Sequence[str]) -> list[PrintedOperation]:
    """Return the operations that make or use values, outer ones before those in their regions."""
    found = []
    for index, line in enumerate(lines):
        names = tuple(_VALUE.findall(line))
        if names and "func" not in line.split("(")[0]:
            head = _RESULTS.match(line)
            results = tuple(_VALUE.findall(head[1])) if head else ()
            type_ = _result_type(line, head[2]) if head else None
            found.append(PrintedOperation((index, _end(lines, index)), results, names[len(results) :], type_))
    return found


def _end(lines: Sequence[str], start: int) -> int:
    """The index after an operation's last line: its closing bracket, if it opens a region."""
    if not lines[start].rstrip().endswith("{"):
        return start + 1
    width = len(lines[start]) - len(lines[start].lstrip())
    closing = (index for index in range(start + 1, len(lines)) if lines[index].startswith(" " * width + "}"))
    return next(closing, start) + 1


def _result_type(line: str, name: str) -> str | None:
    _, arrow, result = line.rpartition(" -> ")
    if arrow:
        return result.strip()
    types = split(line.rpartition(" : ")[2]) if " : " in line else []
    return types[0] if types and _SAME_TYPE.match(name) else None


def has_undefined_values(lines: Sequence[str]) -> bool:
    """Return whether a value is used before a line defines it."""
    known: set[str] = set()
    for line in lines:
        head = _RESULTS.match(line)
        used = set(_VALUE.findall(line[head.end(1) :] if head else line))
        if line.rstrip().endswith("{") or line.lstrip().startswith("^"):  # defines the arguments of a function, block or loop
            known |= used
        if not used <= known:
            return True
        known |= set(_VALUE.findall(head[1])) if head else set()
    return False


def drop_operations(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop operations together with all users of their results."""
    items = operations(_lines(draft))

    def build(kept: Sequence[PrintedOperation]) -> Draft | None:
        dropped = [operation for operation in items if operation not in set(kept)]
        lost = {name for operation in dropped for name in operation.results}
        for operation in items:
            if lost & set(operation.operands) and operation not in dropped:
                dropped.append(operation)
                lost |= set(operation.results)
        return _without(draft, {operation.lines for operation in dropped})

    return minimise(draft, items, build, test, whole=False)


@greedily
def bypass_operations(draft: Draft) -> Iterator[Draft]:
    """Drop an operation and use an earlier value of the same type instead of its result."""
    lines = _lines(draft)
    items = [operation for operation in operations(lines) if len(operation.results) == 1 and operation.type]
    for index, operation in reversed(list(enumerate(items))):
        earlier = [other.results[0] for other in items[:index] if other.type == operation.type]
        for other in dict.fromkeys([*(name for name in operation.operands if name in earlier), *earlier[-1:]]):
            result = re.compile(rf"{re.escape(operation.results[0])}(?![\w$.-])")
            yield _without(_with_lines(draft, [result.sub(other, line) for line in lines]), {operation.lines}) or draft


@greedily
def drop_arguments(draft: Draft) -> Iterator[Draft]:
    """Drop unused arguments of functions."""
    lines = list(_lines(draft))
    used = [name for line in lines for name in _VALUE.findall(line)]
    for index, line in enumerate(lines):
        found = _FUNCTION.match(line)
        if found is None:
            continue
        inside, separator, attributes = found[2].partition(") attributes")
        arguments = split(inside)
        for argument in arguments:
            name = _VALUE.match(argument)
            if name and used.count(name[0]) == 1:
                left = ", ".join(other for other in arguments if other is not argument)
                head = f"{found[1]}{left}{separator}{attributes}{found[3]}"
                yield _with_lines(draft, [*lines[:index], head, *lines[index + 1 :]])


@greedily
def shrink_numbers(draft: Draft) -> Iterator[Draft]:
    """Halve the sizes of shapes: all equal ones together, and in ranges and constants as well."""
    text = "\n".join(_lines(draft))
    for size in sorted(set(map(int, _DIMENSION.findall(text))), reverse=True):
        if size >= 4:
            same = rf"(?<=[<x]){size}(?=x)|(?<=end = ){size}\b|(?<=constant ){size}\b|(?<=dense<){size}\b"
            yield _with_lines(draft, re.sub(same, str(size // 2), text).split("\n"))


_MLIR_PASSES = (drop_operations, bypass_operations, drop_arguments)


def _without(draft: Draft, ranges: Iterable[LineRange]) -> Draft | None:
    dropped = {index for first, end in ranges for index in range(first, end)}
    left = [line for index, line in enumerate(_lines(draft)) if index not in dropped]
    return _with_lines(draft, left) if left else None


def _with_lines(draft: Draft, lines: Sequence[str]) -> Draft:
    return Draft(TextDocument(lines, draft.document.kind, draft.document.suffix), draft.case)


def _lines(draft: Draft) -> tuple[str, ...]:
    assert isinstance(draft.document, TextDocument)
    return draft.document.lines
