"""Cases by versions, one letter each, narrow enough for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from rich.console import RenderableType
from rich.text import Text

from triage.execution.judge import status_of
from triage.model.outcome import Compiled, Failed, Probe, Status, Untestable

_CRASHES = ("segfault", "assertion", "llvm-error")
_LETTERS = {"timeout": "T", "out-of-memory": "M"} | dict.fromkeys(_CRASHES, "C")
_PALETTE = (
    "red",
    "magenta",
    "bright_red",
    "dark_orange",
    "blue",
    "cyan",
    "bright_magenta",
    "gold3",
    "purple",
    "deep_pink3",
)
LEGEND = "P passed  F failed  C crashed  T timed out  M out of memory  U untestable  X passes unexpectedly  . not asked"


def letter(probe: Probe | None) -> tuple[str, str]:
    """The letter and style of one probe; lower case for a failure that the recipe expects."""
    if probe is None:
        return ".", "dim"
    status = status_of(probe)
    match probe.outcome:
        case Compiled():
            return ("X", "bold magenta") if status is Status.XPASS else ("P", "green")
        case Untestable(failure=None):
            return "U", "yellow"
        case Untestable(failure=said) if said is not None and status is not Status.XFAIL:
            return "U", "yellow"
        case Failed(failure=failure) | Untestable(failure=failure):
            assert failure is not None
            text = _LETTERS.get(failure.failure_class, "F")
            return (text.lower() if status is Status.XFAIL else text), _colour(failure.failure_class)


def grid(rows: Sequence[tuple[str, Sequence[Probe | None]]], versions: Sequence[str], columns: int) -> Iterable[RenderableType]:
    """Lines of text: the versions written downwards, a line for each row, a legend of the classes met. Names are cut
    where a line would be longer than `columns`.
    """
    room = max(12, columns - 2 * len(versions) - 2)
    width = min(room, max((len(name) for name, _ in rows), default=0))
    heads = _short(versions)
    for depth in range(max(map(len, heads), default=0)):
        yield Text(" " * (width + 2) + " ".join(head.rjust(max(map(len, heads)))[depth] for head in heads), style="dim")
    classes: dict[str, str] = {}
    for name, probes in rows:
        line = Text((name if len(name) <= width else name[: width - 1] + "…").ljust(width) + "  ")
        for number, probe in enumerate(probes):
            text, style = letter(probe)
            line.append((" " if number else "") + text, style=style)
            if probe and isinstance(probe.outcome, Failed):
                classes[probe.outcome.failure.failure_class] = style
        yield line
    yield Text(LEGEND, style="dim")
    if classes:
        legend = Text("classes: ", style="dim")
        for number, (name, style) in enumerate(sorted(classes.items())):
            legend.append(", " if number else "").append(name, style=style)
        yield legend


def _short(versions: Sequence[str]) -> list[str]:
    """`3.10` for 3.10.0 wherever no other version of the row is then called the same."""
    cut = [name.removesuffix(".0") if name.count(".") > 1 else name for name in versions]
    minors = [".".join(name.split(".")[:2]) for name in versions]
    return [name if minors.count(minor) > 1 else short for name, short, minor in zip(versions, cut, minors, strict=True)]


def _colour(failure_class: str) -> str:
    return _PALETTE[crc32(failure_class.encode()) % len(_PALETTE)]
