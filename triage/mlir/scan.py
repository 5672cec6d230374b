"""Brackets and commas in the text of attributes and types."""

from __future__ import annotations

import re
from collections.abc import Iterator

_INTERESTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|->|[<>=]=|[<>{}()\[\]]', re.DOTALL)
_PARTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|->|[<>=]=|[<>{}()\[\],]', re.DOTALL)
_OPENERS = frozenset("<{([")
_CLOSERS = frozenset(">})]")
_SYMBOL = re.compile(r'@("[^"\\]*(?:\\.[^"\\]*)*"|[\w$.-]+)')


class UnbalancedError(ValueError):
    """A bracket without its partner; `offset` says where the text was opened."""

    def __init__(self, offset: int) -> None:
        super().__init__("unbalanced brackets")
        self.offset = offset


def closing(text: str, start: int) -> int:
    """The index after the bracket that closes the one at `start`. UnbalancedError where there is none."""
    depth = 0
    for found in _INTERESTING.finditer(text, start):
        token = found.group()
        if token in _OPENERS:
            depth += 1
        elif token in _CLOSERS:
            depth -= 1
            if depth == 0:
                return found.end()
    raise UnbalancedError(start)


def split(text: str) -> list[str]:
    """The parts between the commas that stand in no bracket, stripped; none for an empty text."""
    if "," not in text:
        return [text.strip()] if text.strip() else []
    parts, depth, begin = [], 0, 0
    for found in _PARTING.finditer(text):
        token = found.group()
        if token in _OPENERS:
            depth += 1
        elif token in _CLOSERS:
            depth -= 1
        elif token == "," and depth == 0:  # noqa: S105
            parts.append(text[begin : found.start()].strip())
            begin = found.end()
    parts.append(text[begin:].strip())
    return parts


def entries(text: str) -> dict[str, str]:
    """The names and texts of an attribute dictionary's inside; a unit attribute's text is empty."""
    found = {}
    for part in split(text):
        name, _, value = part.partition(" = ")
        found[name.strip()] = value.strip()
    return found


def symbols(text: str) -> Iterator[str]:
    """The names of the symbols a text refers to, without `@` and quotes."""
    if "@" in text:
        for found in _SYMBOL.finditer(text):
            yield found.group(1).strip('"')
