"""Plain text as lines, and the blocks that its indentation shows."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.case import InputKind

Span = tuple[int, int]


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


def blocks(lines: Sequence[str], depth: int) -> list[Span]:
    """The spans of lines that begin at the `depth`-th level of indentation, counted from 0: a line with all deeper lines
    after it, and the line that closes it where that begins with a bracket.
    """
    widths = [len(line) - len(line.lstrip()) for line in lines]
    levels = sorted(set(widths))
    if depth >= len(levels):
        return []
    found: list[Span] = []
    at = 0
    while at < len(lines):
        if widths[at] != levels[depth]:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and widths[end] > widths[at]:
            end += 1
        if end - at > 1 and end < len(lines) and widths[end] == widths[at] and lines[end].lstrip()[:1] in ("}", ")", "]"):
            end += 1
        found.append((at, end))
        at = end
    return found
