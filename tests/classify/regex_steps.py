"""Count the steps that a backtracking regex engine takes, so that the cost of a pattern can be tested without a clock.

This is a plain interpreter of the patterns that `re` parses. It tries alternatives and repetitions in the same order as
`re` does; each comparison with a character is a step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from re import _compiler, _constants, _parser
from typing import Any

Continue = Callable[[int], bool]
ONE_CHARACTER = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)
REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


class TooManyStepsError(Exception):
    """The search was given up."""


class Steps:
    """Searches a text with a parsed pattern and counts."""

    def __init__(self, regex: str, text: str, most: int) -> None:
        self.text, self.most, self.count = text, most, 0
        self.parsed = _parser.parse(regex)
        self.groups: dict[int, tuple[int, int]] = {}
        self._is_one: dict[int, re.Pattern[str]] = {}

    def search(self) -> bool:
        nodes = list(self.parsed)
        return any(self._match(nodes, 0, start, lambda _: True) for start in range(len(self.text) + 1))

    def _match(self, nodes: list[Any], index: int, at: int, then: Continue) -> bool:  # noqa: C901 - one branch for each code
        if index == len(nodes):
            return then(at)
        code, value = nodes[index]
        rest = lambda end: self._match(nodes, index + 1, end, then)  # noqa: E731
        if code in ONE_CHARACTER:
            return self._one(nodes[index], at) and rest(at + 1)
        if code in REPEATS:
            low, high, body = value[0], value[1], list(value[2])
            high = len(self.text) + 1 if high is _constants.MAXREPEAT else int(high)
            if len(body) == 1 and body[0][0] in ONE_CHARACTER:
                return self._characters(code, low, high, body[0], at, rest)
            if code is _constants.POSSESSIVE_REPEAT:
                return self._possessive(low, high, body, at, rest)
            return self._groups(code, low, high, body, at, rest)
        if code is _constants.SUBPATTERN:
            group = value[0]

            def close(end: int) -> bool:
                if group is not None:
                    self.groups[group] = (at, end)
                return rest(end)

            return self._match(list(value[3]), 0, at, close)
        if code is _constants.BRANCH:
            return any(self._match(list(branch), 0, at, rest) for branch in value[1])
        if code is _constants.ATOMIC_GROUP:
            end = self._end(list(value), at)
            return end is not None and rest(end)
        if code in (_constants.ASSERT, _constants.ASSERT_NOT):
            direction, body = value
            start = at if direction > 0 else at - body.getwidth()[0]
            found = start >= 0 and self._end(list(body), start) is not None
            return found is (code is _constants.ASSERT) and rest(at)
        if code is _constants.AT:
            self._step()
            return self._anchor(value, at) and rest(at)
        if code is _constants.GROUPREF:
            start, end = self.groups.get(value, (0, 0))
            return self.text.startswith(self.text[start:end], at) and rest(at + end - start)
        raise NotImplementedError(code)

    def _step(self) -> None:
        self.count += 1
        if self.count > self.most:
            raise TooManyStepsError

    def _one(self, node: Any, at: int) -> bool:
        self._step()
        if at >= len(self.text):
            return False
        pattern = self._is_one.get(id(node))
        if pattern is None:
            parsed = _parser.parse("")
            parsed.data = [node]
            pattern = self._is_one[id(node)] = _compiler.compile(parsed)
        return pattern.match(self.text, at) is not None

    def _characters(self, code: Any, low: int, high: int, node: Any, at: int, rest: Continue) -> bool:
        count = 0
        lazy = code is _constants.MIN_REPEAT
        while count < (low if lazy else high) and self._one(node, at + count):
            count += 1
        if count < low:
            return False
        if code is _constants.POSSESSIVE_REPEAT:
            return rest(at + count)
        if not lazy:
            return any(rest(at + taken) for taken in range(count, low - 1, -1))
        while not rest(at + count):
            if count >= high or not self._one(node, at + count):
                return False
            count += 1
        return True

    def _possessive(self, low: int, high: int, body: list[Any], at: int, rest: Continue) -> bool:
        count = 0
        while count < high:
            end = self._end(body, at)
            if end is None:
                break
            count += 1
            if end == at:
                break
            at = end
        return count >= low and rest(at)

    def _groups(self, code: Any, low: int, high: int, body: list[Any], at: int, rest: Continue, done: int = 0) -> bool:
        def more(end: int) -> bool:
            return (end > at or done < low) and self._groups(code, low, high, body, end, rest, done + 1)

        again = lambda: done < high and self._match(body, 0, at, more)  # noqa: E731
        enough = lambda: done >= low and rest(at)  # noqa: E731
        return (enough() or again()) if code is _constants.MIN_REPEAT else (again() or enough())

    def _end(self, body: list[Any], at: int) -> int | None:
        ends: list[int] = []

        def stop(end: int) -> bool:
            ends.append(end)
            return True

        return ends[0] if self._match(body, 0, at, stop) else None

    def _anchor(self, kind: Any, at: int) -> bool:
        return anchor(str(kind)).match(self.text, at) is not None


@cache
def anchor(kind: str) -> re.Pattern[str]:
    known = {
        "AT_BEGINNING": r"\A",
        "AT_BEGINNING_STRING": r"\A",
        "AT_END": r"$",
        "AT_END_STRING": r"\Z",
        "AT_BOUNDARY": r"\b",
        "AT_NON_BOUNDARY": r"\B",
    }
    return re.compile(known[kind])


def count_steps(regex: str, text: str, most: int) -> int:
    """Return the steps of one search, or `most` when it takes more."""
    search = Steps(regex, text, most)
    try:
        search.search()
    except TooManyStepsError:
        return most
    return search.count


def pieces_of(nodes: Any) -> Iterator[str]:
    """Yield a shortest text for each part of a pattern, the longer prefixes last."""
    text = ""
    for node in nodes:
        text += shortest([node])
        yield text


def shortest(nodes: Any) -> str:
    """Return a text that the nodes match, with one character or one round for each repetition."""
    text = ""
    for code, value in nodes:
        if code is _constants.LITERAL:
            text += chr(value)
        elif code in (_constants.ANY, _constants.NOT_LITERAL):
            text += "a" if code is _constants.ANY or value != ord("a") else "b"
        elif code is _constants.IN:
            text += member(value)
        elif code in REPEATS:
            text += shortest(value[2]) * max(1, value[0])
        elif code is _constants.SUBPATTERN:
            text += shortest(value[3])
        elif code is _constants.ATOMIC_GROUP:
            text += shortest(value)
        elif code is _constants.BRANCH:
            text += shortest(value[1][0])
    return text


def member(choices: Any) -> str:
    parsed = _parser.parse("")
    parsed.data = [(_constants.IN, choices)]
    pattern = _compiler.compile(parsed)
    return next((chr(number) for number in (97, 46, 32, 49, *range(33, 127), 10, 233) if pattern.match(chr(number))), "a")


def repeated_parts(nodes: Any) -> Iterator[str]:
    """Yield a text for each unbounded repetition in a pattern: one round of it."""
    for code, value in nodes:
        if code in REPEATS:
            if value[1] is _constants.MAXREPEAT:
                yield shortest(value[2])
            yield from repeated_parts(value[2])
        elif code is _constants.SUBPATTERN:
            yield from repeated_parts(value[3])
        elif code is _constants.ATOMIC_GROUP:
            yield from repeated_parts(value)
        elif code is _constants.BRANCH:
            for branch in value[1]:
                yield from repeated_parts(branch)
        elif code in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from repeated_parts(value[1])


def adversarial_texts(regex: str, length: int) -> Iterator[str]:
    """Yield texts that make a regex backtrack: its own prefixes and repetitions again and again, without its end.

    Each exists with the whole of a match before it as well, so that all literals of the regex occur in it.
    """
    parsed = list(_parser.parse(regex))
    whole = shortest(parsed)
    prefixes = list(dict.fromkeys(text for text in pieces_of(parsed) if text.strip()))
    parts = list(dict.fromkeys(text for text in repeated_parts(parsed) if text))
    for piece in dict.fromkeys([*prefixes[:-1], *parts, ".", " ", "a."]):
        for before, after in (("", "\x01"), (whole[-12:] + "\x01", "\x01"), (whole[: len(whole) // 2], "\x01")):
            yield before + (piece * length)[:length] + after
