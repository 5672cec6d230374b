"""The form of any text: passes by blocks of lines, then by tokens within the lines that
are left.

The key insight about tokens: most languages nest brackets, separate items by commas,
and end statements with a semicolon or a brace. These are dropped before single tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from triage.model.case import Case
from triage.reduce.problem import Form, Program, ReductionProblem, drop_settings

_OPENING = "([{"
_CLOSING = ")]}"
# a quoted text, a word or number, a bracket or separator, or a run of other characters;
# each with the space before it
_TOKEN = re.compile(
    r"""\s*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\w+|[()\[\]{},;"']|[^\w\s()\[\]{},;"']+)"""
)


@dataclass(frozen=True, eq=False)
class TextProgram(Program):
    """The lines of a file that are not empty."""

    lines: Sequence[str]
    suffix: str = "txt"

    @property
    def content(self) -> bytes:
        text = "".join(f"{line}\n" for line in self.lines)
        return text.encode("utf-8", "surrogateescape")

    @property
    def size(self) -> int:
        return len(self.lines)

    @cached_property
    def tokens(self) -> list[tuple[int, str]]:
        """The tokens of all lines, each with the number of its line."""
        return [
            (number, text)
            for number, line in enumerate(self.lines)
            for text in _TOKEN.findall(line)
        ]

    def without(self, dropped: Sequence[int]) -> TextProgram:
        """Return the program without some of its tokens."""
        lines = [""] * len(self.lines)
        absent = set(dropped)
        for index, (number, text) in enumerate(self.tokens):
            if index not in absent:
                lines[number] += text
        return replace(self, lines=[line for line in lines if line.strip()])


def text_form(case: Case, source: Path) -> Form:
    """Return the form of any text file."""
    text = source.read_bytes().decode("utf-8", "surrogateescape")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    program = TextProgram(case, lines, source.suffix[1:] or "txt")
    passes = (
        drop_lines,
        drop_items,
        drop_tokens,
    )
    return Form([program], passes, (drop_settings,))


def drop_lines(problem: ReductionProblem) -> None:
    """Drop lines, each with those that are indented below it; outer ones first."""
    lines = TextProgram.of(problem).lines
    for level in sorted({len(line) - len(line.lstrip()) for line in lines}):
        _drop_blocks(problem, level)


def _drop_blocks(problem: ReductionProblem, level: int) -> None:
    """Drop blocks that begin with at most so many spaces, halves before single ones,
    the last first, because what is used stands before its users.
    """
    start = TextProgram.of(problem)
    lines = start.lines
    heads = [at for at in reversed(range(len(lines))) if lines[at][: level + 1].strip()]

    def without(dropped: Sequence[range]) -> Program:
        absent = set(chain.from_iterable(dropped))
        left = [line for at, line in enumerate(lines) if at not in absent]
        return replace(start, lines=left)

    problem.delete(list(map(range, heads, [len(lines), *heads])), without)


def drop_items(problem: ReductionProblem) -> None:
    """Drop brackets with what they hold, items, statements, and brackets alone."""

    def changes() -> Iterator[Program]:
        start = TextProgram.of(problem)
        tokens = [text.strip() for _, text in start.tokens]
        for span in _spans(tokens):
            yield start.without(span)
            if tokens[span[0]] in _OPENING:
                yield start.without((span[0], span[-1]))

    problem.change(changes)


def drop_tokens(problem: ReductionProblem) -> None:
    """Drop tokens, halves of the text before single ones."""
    start = TextProgram.of(problem)
    problem.delete(range(len(start.tokens)), start.without)


def _spans(tokens: Sequence[str]) -> list[range]:
    """Return the brackets with what they hold, the items between separators with one
    separator, and what ends with a brace and begins after the last statement, in the
    order of their first tokens, outer ones first.

    >>> _spans(["f", "(", "a", ",", "b", ")"])
    [range(1, 6), range(2, 4), range(3, 5)]
    >>> tokens = "f { a ; } g { }".split()
    >>> [" ".join(tokens[span.start : span.stop]) for span in _spans(tokens)]
    ['f { a ; }', '{ a ; }', 'a ;', ';', 'g { }', '{ }']
    """
    spans: set[range] = set()
    # of each open bracket its index, and where the item and the statement begin
    opened = [[-1, 0, 0]]
    for index, text in enumerate([*tokens, "}"]):
        bracket, item, statement = opened[-1]
        if text in _OPENING:
            opened.append([index, index + 1, index + 1])
        elif text in (",", ";"):
            if text == ";":
                item = statement
            spans.add(range(item, index + 1))
            opened[-1] = [bracket, index + 1, index + 1]
        elif text in _CLOSING:
            if item > bracket + 1:
                spans.add(range(item - 1, index))
            if bracket >= 0:
                spans.add(range(bracket, index + 1))
                opened.pop()
                if text == "}":
                    spans.add(range(opened[-1][2], index + 1))
                    opened[-1][2] = index + 1
    return sorted(spans, key=lambda span: (span.start, -span.stop))
