"""Reduces text that no other form reads: by blocks of indentation, by lines, then by
tokens within the lines that are left.

The key insight about tokens: most languages nest brackets and separate items by commas,
so whole brackets and items are dropped before single tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from triage.model.case import InputKind
from triage.reduce.problem import Form, Pass, ReductionProblem
from triage.reduce.program import ReducedCase, Reducible
from triage.reduce.settings import drop_flags, drop_options, fewer_devices

_DEEPEST = 6  # levels of indentation; deeper lines are dropped one by one
_BRACKETS = {")": "(", "]": "[", "}": "{"}
# a quoted text, a word or number, a bracket or separator, or a run of other characters;
# each with the space before it
_TOKEN = re.compile(
    r"""\s*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\w+|[()\[\]{},;"']|[^\w\s()\[\]{},;"']+)"""
)


class TextProgram(Reducible):
    """The lines of a file that are not empty."""

    unit = "line"

    def __init__(self, lines: Sequence[str], kind: InputKind, suffix: str) -> None:
        self.lines = tuple(line for line in lines if line.strip())
        self.kind, self.suffix = kind, suffix

    @property
    def content(self) -> bytes:
        text = "".join(f"{line}\n" for line in self.lines)
        return text.encode("utf-8", "surrogateescape")

    @property
    def size(self) -> int:
        return len(self.lines)


def text_form(kind: InputKind, suffix: str, why: str = "") -> Form:
    """Return the form of any text file. why: the reason why no other form reads it."""

    def read(path: Path) -> Sequence[Reducible]:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        lines = [line.rstrip() for line in text.splitlines()]
        return [TextProgram(lines, kind, suffix)]

    passes: list[Pass] = [
        drop_blocks,
        drop_lines,
    ]
    note = f"{why}it was reduced as plain text, by blocks and lines"
    if kind is InputKind.OTHER:
        passes += [drop_items, drop_tokens]
        note += ", then by tokens"
    return Form(read, passes, (fewer_devices, drop_flags, drop_options), notes=(note,))


def drop_blocks(problem: ReductionProblem) -> None:
    """Drop whole blocks, the outermost first."""
    for depth in range(_DEEPEST):
        ranges = blocks(_lines(problem.current), depth)
        if len(ranges) > 1:
            _drop_ranges(problem, ranges)


def drop_lines(problem: ReductionProblem) -> None:
    """Drop lines, halves of the text before single ones."""
    count = len(_lines(problem.current))
    _drop_ranges(problem, [range(index, index + 1) for index in range(count)])


def _drop_ranges(problem: ReductionProblem, ranges: Sequence[range]) -> None:
    start = problem.current

    def without(dropped: Sequence[range]) -> ReducedCase:
        gone = {index for lines in dropped for index in lines}
        lines = enumerate(_lines(start))
        return _with_lines(start, [line for index, line in lines if index not in gone])

    problem.delete(ranges, without, whole=False)


def drop_items(problem: ReductionProblem) -> None:
    """Drop brackets with what they hold, items between commas, and brackets alone."""

    def changes(candidate: ReducedCase) -> Iterator[ReducedCase]:
        tokens = _tokens(candidate)
        for span in _spans([text.strip() for _, text in tokens]):
            yield _without(candidate, tokens, span)
            if tokens[span[0]][1].strip() in _BRACKETS.values():
                yield _without(candidate, tokens, (span[0], span[-1]))

    problem.change(changes)


def drop_tokens(problem: ReductionProblem) -> None:
    """Drop tokens, halves of the text before single ones."""
    start, tokens = problem.current, _tokens(problem.current)
    problem.delete(
        range(len(tokens)),
        lambda dropped: _without(start, tokens, dropped),
        whole=False,
    )


def _tokens(candidate: ReducedCase) -> list[tuple[int, str]]:
    """Return the tokens of all lines, each with the number of its line."""
    return [
        (number, text)
        for number, line in enumerate(_lines(candidate))
        for text in _TOKEN.findall(line)
    ]


def _spans(tokens: Sequence[str]) -> list[range]:
    """Return the brackets with what they hold, and the items between separators with
    one separator, in the order of their first tokens, outer ones first.

    >>> _spans(["f", "(", "a", ",", "b", ")"])
    [range(1, 6), range(2, 4), range(3, 5)]
    """
    spans: set[range] = set()
    opened: list[list[int]] = [[]]  # the bracket, then its separators
    for index, token in enumerate(tokens):
        if token in _BRACKETS.values():
            opened.append([index])
        elif token in (",", ";"):
            opened[-1].append(index)
        elif token in _BRACKETS and len(opened) > 1:
            edges = opened.pop()
            spans.add(range(edges[0], index + 1))
            spans.update(_items(edges, index))
    spans.update(_items([-1, *opened[0]], len(tokens)))
    return sorted(spans, key=lambda span: (span.start, -span.stop))


def _items(edges: Sequence[int], end: int) -> Iterator[range]:
    """Yield each item between separators, with the separator after it, or before the
    last one. edges: the opening bracket, then the separators.
    """
    for edge, following in pairwise(edges):
        yield range(edge + 1, following + 1)
    if len(edges) > 1:
        yield range(edges[-1], end)


def _without(
    candidate: ReducedCase, tokens: Sequence[tuple[int, str]], dropped: Sequence[int]
) -> ReducedCase:
    lines = [""] * len(_lines(candidate))
    absent = set(dropped)
    for index, (number, text) in enumerate(tokens):
        if index not in absent:
            lines[number] += text
    return _with_lines(candidate, lines)


def blocks(lines: Sequence[str], depth: int) -> list[range]:
    """Return the blocks at a level of indentation, counted from 0: a line, the deeper
    lines after it and the closing bracket.
    """
    widths = [len(line) - len(line.lstrip()) for line in lines]
    level = sorted(set(widths))[depth : depth + 1]
    ranges: list[range] = []
    index = 0
    while index < len(lines):
        end = index + 1
        if [widths[index]] == level:
            while end < len(lines) and widths[end] > widths[index]:
                end += 1
            closes = lines[end : end + 1] and lines[end].lstrip().startswith(
                ("}", ")", "]")
            )
            if closes and end > index + 1 and [widths[end]] == level:
                end += 1
            ranges.append(range(index, end))
        index = end
    return ranges


def _with_lines(candidate: ReducedCase, lines: Sequence[str]) -> ReducedCase:
    program = candidate.program
    return candidate.with_program(TextProgram(lines, program.kind, program.suffix))


def _lines(candidate: ReducedCase) -> tuple[str, ...]:
    assert isinstance(candidate.program, TextProgram)
    return candidate.program.lines
