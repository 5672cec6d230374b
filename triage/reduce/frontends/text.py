"""Reduces text that no other frontend reads by blocks of indentation and by lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from triage.model.case import InputKind
from triage.reduce.engine import (
    Frontend,
    drop_flags,
    drop_options,
    fewer_devices,
    minimise,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase, Reducible

_DEEPEST = 6  # levels of indentation; deeper lines are dropped one by one


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


def text_frontend(kind: InputKind, suffix: str) -> Frontend:
    """Return the frontend for any text file."""

    def read(path: Path) -> Sequence[Reducible]:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return [
            TextProgram(
                [line.rstrip() for line in text.splitlines() if line.strip()],
                kind,
                suffix,
            )
        ]

    return Frontend(
        read,
        (
            drop_blocks,
            drop_lines,
        ),
        (fewer_devices, drop_flags, drop_options),
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
