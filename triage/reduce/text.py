"""The form of any text: passes by indented blocks and lines, then by tokens within the
lines that are left.

The key insight about tokens: most languages nest brackets and separate items by commas,
so whole brackets and items are dropped before single tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.model.case import InputKind
from triage.reduce.problem import (
    Form,
    ReducedCase,
    Reducible,
    ReductionProblem,
    drop_settings,
)

_BRACKETS = {")": "(", "]": "[", "}": "{"}
# a quoted text, a word or number, a bracket or separator, or a run of other characters;
# each with the space before it
_TOKEN = re.compile(
    r"""\s*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\w+|[()\[\]{},;"']|[^\w\s()\[\]{},;"']+)"""
)


class TextProgram(Reducible):
    """The lines of a file that are not empty."""

    unit = "line"

    def __init__(self, lines: Sequence[str], suffix: str) -> None:
        self.lines = tuple(line for line in lines if line.strip())
        self.suffix = suffix
        self.kind = InputKind.MLIR if suffix == InputKind.MLIR else InputKind.OTHER

    @property
    def content(self) -> bytes:
        text = "".join(f"{line}\n" for line in self.lines)
        return text.encode("utf-8", "surrogateescape")

    @property
    def size(self) -> int:
        return len(self.lines)


def text_form(source: Path) -> Form:
    """Return the form of any text file."""
    text = source.read_bytes().decode("utf-8", "surrogateescape")
    lines = [line.rstrip() for line in text.splitlines()]
    passes = (
        drop_lines,
        drop_items,
        drop_tokens,
    )
    program = TextProgram(lines, source.suffix[1:] or "txt")
    return Form([program], passes, (drop_settings,))


def drop_lines(problem: ReductionProblem) -> None:
    """Drop lines, halves of the text before single ones."""
    start, lines = problem.current, _lines(problem.current)

    def without(dropped: Sequence[int]) -> ReducedCase:
        absent = set(dropped)
        left = [line for index, line in enumerate(lines) if index not in absent]
        return _with_lines(start, left)

    problem.delete(range(len(lines)), without)


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
    opened = [(-1, 0)]  # of each open bracket its index, and that of the item's start
    for index, token in enumerate([*tokens, "the end"]):
        bracket, item = opened[-1]
        if token in _BRACKETS.values():
            opened.append((index, index + 1))
        elif token in (",", ";"):
            spans.add(range(item, index + 1))
            opened[-1] = (bracket, index + 1)
        elif index == len(tokens) or (token in _BRACKETS and len(opened) > 1):
            if bracket >= 0 and token in _BRACKETS:
                spans.add(range(bracket, index + 1))
                opened.pop()
            if item > bracket + 1:
                spans.add(range(item - 1, index))
    return sorted(spans, key=lambda span: (span.start, -span.stop))


def _without(
    candidate: ReducedCase, tokens: Sequence[tuple[int, str]], dropped: Sequence[int]
) -> ReducedCase:
    lines = [""] * len(_lines(candidate))
    absent = set(dropped)
    for index, (number, text) in enumerate(tokens):
        if index not in absent:
            lines[number] += text
    return _with_lines(candidate, lines)


def _with_lines(candidate: ReducedCase, lines: Sequence[str]) -> ReducedCase:
    program = candidate.program
    return candidate.with_program(TextProgram(lines, program.suffix))


def _lines(candidate: ReducedCase) -> tuple[str, ...]:
    assert isinstance(candidate.program, TextProgram)
    return candidate.program.lines
