"""Find literals that every match of a regex contains, in order. A text without them need not be searched by the regex.

Python's engine backtracks: `A.*B` takes quadratic time on a text that repeats A and lacks B. Looking for both literals
first takes linear time, and is faster on ordinary text, too.
"""

from __future__ import annotations

import re
from functools import cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_MOST_CHOICES = 12  # of one step; looking for more takes longer than the regex

Step = tuple[str, ...]
"""Literals of which a match contains one after the steps before."""


@cache
def required_literals(regex: str) -> tuple[Step, ...]:
    """Return the steps of a regex, empty when it requires no literal."""
    parsed = parser.parse(regex)
    if parsed.state.flags & re.IGNORECASE:
        return ()
    return tuple(step for step in _steps(parsed) if any(step) and len(step) <= _MOST_CHOICES)


def may_match(steps: tuple[Step, ...], text: str) -> bool:
    """Return whether a text has a literal of each step, in order."""
    start = 0
    for step in steps:
        ends = [place + len(literal) for literal in step if (place := text.find(literal, start)) >= 0]
        if not ends:
            return False
        start = min(ends)
    return True


def _steps(nodes: Any) -> list[Step]:
    steps: list[Step] = []
    run = ""
    for code, value in nodes:
        if code is codes.LITERAL:
            run += chr(value)
            continue
        if run:
            steps.append((run,))
            run = ""
        if code is codes.SUBPATTERN and not value[1] & re.IGNORECASE:
            steps += _steps(value[3])
        elif code is codes.ATOMIC_GROUP:
            steps += _steps(value)
        elif code is codes.BRANCH and (choices := [_longest(branch) for branch in value[1]]) and all(choices):
            steps.append(tuple(dict.fromkeys(choices)))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT) and value[0]:
            steps += _steps(value[2])
    return [*steps, (run,)] if run else steps


def _longest(nodes: Any) -> str:
    return max((step[0] for step in _steps(nodes) if len(step) == 1), key=len, default="")
