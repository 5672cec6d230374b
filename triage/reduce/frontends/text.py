"""Reduces text that no other frontend reads: by blocks of indentation, by lines, then
by tokens within the lines that are left.

The key insight about tokens: most languages nest brackets and separate items by commas,
so whole brackets and items are dropped before single tokens. What is left to drop comes
in pairs: an operator with its operand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from triage.model.case import InputKind
from triage.reduce.engine import (
    Frontend,
    Pass,
    drop_flags,
    drop_options,
    fewer_devices,
    greedily,
    minimise,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase, Reducible

_DEEPEST = 6  # levels of indentation; deeper lines are dropped one by one
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_SEPARATORS = (",", ";")
# a quoted text, a word or number, a bracket or separator, or a run of other characters;
# each with the space before it
_TOKEN = re.compile(
    r"""\s*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\w+|[()\[\]{},;"']|[^\w\s()\[\]{},;"']+)"""
)

_OPERATOR = re.compile(r"\s*[^\w\s()\[\]{},;\"']+")


class TextProgram(Reducible):
    """The lines of a file that are not empty."""

    unit = "line"

    def __init__(self, lines: Sequence[str], kind: InputKind, suffix: str) -> None:
        self.lines = tuple(lines)
        self.kind, self.suffix = kind, suffix

    @property
    def content(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode(
            "utf-8", "surrogateescape"
        )

    @property
    def size(self) -> int:
        return len(self.lines)


def text_frontend(kind: InputKind, suffix: str, why: str = "") -> Frontend:
    """Return the frontend for any text file. why: the reason why no other reads it."""

    def read(path: Path) -> Sequence[Reducible]:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return [
            TextProgram(
                [line.rstrip() for line in text.splitlines() if line.strip()],
                kind,
                suffix,
            )
        ]

    by_tokens: tuple[Pass, ...] = ()
    how = f"{why}it was reduced as plain text, by blocks and lines"
    if kind is InputKind.OTHER:
        by_tokens = (drop_items, drop_tokens, drop_pairs)
        how += ", then by tokens"
    return Frontend(
        read,
        (
            drop_blocks,
            drop_lines,
            *by_tokens,
        ),
        (fewer_devices, drop_flags, drop_options),
        notes=(how,),
    )


def drop_blocks(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop whole blocks, the outermost first."""
    for depth in range(_DEEPEST):
        ranges = blocks(_lines(candidate), depth)
        if len(ranges) > 1:
            candidate = _drop_ranges(candidate, test, ranges)
    return candidate


def drop_lines(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop lines, halves of the text before single ones."""
    return _drop_ranges(
        candidate,
        test,
        [range(index, index + 1) for index in range(len(_lines(candidate)))],
    )


@greedily
def drop_items(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Drop brackets with what they hold, items between commas, and brackets alone."""
    tokens = _tokens(candidate)
    for span in _spans([text.strip() for _, text in tokens]):
        yield from _without(candidate, tokens, span)
        if tokens[span[0]][1].strip() in _BRACKETS.values():
            yield from _without(candidate, tokens, (span[0], span[-1]))


def drop_tokens(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop tokens, halves of the text before single ones."""
    tokens = _tokens(candidate)

    def build(kept: Sequence[int]) -> ReducedCase | None:
        dropped = sorted(set(range(len(tokens))) - set(kept))
        return next(_without(candidate, tokens, dropped), None)

    return minimise(candidate, range(len(tokens)), build, test, whole=False)


@greedily
def drop_pairs(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Drop an operator with the operand before or after it."""
    tokens = _tokens(candidate)
    for index in range(len(tokens) - 1):
        if any(_OPERATOR.fullmatch(text) for _, text in tokens[index : index + 2]):
            yield from _without(candidate, tokens, (index, index + 1))


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
    found: set[range] = set()
    opened: list[list[int]] = [[]]  # the bracket, then its separators
    for index, token in enumerate(tokens):
        if token in _BRACKETS.values():
            opened.append([index])
        elif token in _SEPARATORS:
            opened[-1].append(index)
        elif token in _BRACKETS and len(opened) > 1:
            edges = opened.pop()
            found.add(range(edges[0], index + 1))
            found.update(_items(edges, index))
    found.update(_items([-1, *opened[0]], len(tokens)))
    return sorted(found, key=lambda span: (span.start, -span.stop))


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
) -> Iterator[ReducedCase]:
    """Yield the program without these tokens, unless nothing is left."""
    lines = [""] * len(_lines(candidate))
    absent = set(dropped)
    for index, (number, text) in enumerate(tokens):
        if index not in absent:
            lines[number] += text
    program = candidate.program
    left = [line for line in lines if line.strip()]
    if left:
        smaller = TextProgram(left, program.kind, program.suffix)
        yield ReducedCase(smaller, candidate.case)


def blocks(lines: Sequence[str], depth: int) -> list[range]:
    """Return the blocks at a level of indentation, counted from 0: a line, the deeper
    lines after it and the closing bracket.
    """
    widths = [len(line) - len(line.lstrip()) for line in lines]
    levels = sorted(set(widths))
    found: list[range] = []
    for index, width in enumerate(widths):
        if (
            depth >= len(levels)
            or width != levels[depth]
            or (found and index in found[-1])
        ):
            continue
        end = next(
            (later for later in range(index + 1, len(lines)) if widths[later] <= width),
            len(lines),
        )
        if (
            end - index > 1
            and end < len(lines)
            and widths[end] == width
            and lines[end].lstrip().startswith(("}", ")", "]"))
        ):
            end += 1
        found.append(range(index, end))
    return found


def _drop_ranges(
    candidate: ReducedCase, test: InterestingnessTest, ranges: Sequence[range]
) -> ReducedCase:
    lines, program = _lines(candidate), candidate.program

    def build(kept: Sequence[range]) -> ReducedCase | None:
        dropped = {index for lines in set(ranges) - set(kept) for index in lines}
        left = [line for index, line in enumerate(lines) if index not in dropped]
        if left:
            return ReducedCase(
                TextProgram(left, program.kind, program.suffix), candidate.case
            )
        return None

    return minimise(candidate, ranges, build, test, whole=False)


def _lines(candidate: ReducedCase) -> tuple[str, ...]:
    assert isinstance(candidate.program, TextProgram)
    return candidate.program.lines
