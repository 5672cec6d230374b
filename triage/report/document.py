"""A document: the small tree of blocks that every result becomes once, and that each
renderer prints in its own way.

Builders write plain text. The renderers (`terminal`, `markdown`, `html`) do all
escaping, so that text from a compiler, a file name or a commit means nothing but its
characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Style = Literal["plain", "good", "bad", "warning", "dim", "strong", "code"]


@dataclass(frozen=True)
class Span:
    """A piece of text with a meaning, which each renderer shows in its own colours."""

    text: str
    style: Style = "plain"
    url: str | None = None
    """The address behind the text: a web page, or a file next to the report."""


Phrase = list[str | Span]
"""The pieces of a text."""
Inline = str | Span | Sequence[str | Span]
Fact = tuple[str, Inline | None]
"""A name, and what is known of it."""
TableRows = list[list[Inline]]


@dataclass(frozen=True)
class Heading:
    """A heading of the first, second or third level."""

    text: Inline
    level: int = 2


@dataclass(frozen=True)
class Bullets:
    """A list of short points."""

    items: Sequence[Inline]


@dataclass(frozen=True)
class Facts:
    """Names and what is known of each. An empty name continues the row above it."""

    rows: Sequence[tuple[str, Inline]]


@dataclass(frozen=True)
class Table:
    """A table. Columns in which every cell is empty are not shown."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Inline]]


@dataclass(frozen=True)
class Code:
    """Text that keeps its lines: a program, a command, compiler output."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Details:
    """Blocks that a page folds under a summary. A terminal shows only the summary,
    and the blocks with --verbose.
    """

    summary: str
    blocks: Sequence[Block]


Block = Inline | Heading | Bullets | Facts | Table | Code | Details
"""A part of a document. A text is a paragraph."""


@dataclass(frozen=True)
class Document:
    """A title and blocks. The terminal leaves the title out, because the command that
    was typed says it.
    """

    title: str
    blocks: Sequence[Block]


def spans(text: Inline) -> tuple[Span, ...]:
    """Return an inline text as spans."""
    parts: Sequence[str | Span] = [text] if isinstance(text, str | Span) else text
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def facts(rows: Iterable[Fact]) -> Facts:
    """Return names and what is known of each, without those of which nothing is."""
    return Facts([(name, text) for name, text in rows if text])


def plain_text(text: Inline) -> str:
    """Return the characters of an inline text."""
    return "".join(span.text for span in spans(text))


def shown_columns(table: Table) -> list[int]:
    """Return the positions of the columns that have something to show."""
    return [
        number
        for number in range(len(table.columns))
        if any(plain_text(row[number]).strip() for row in table.rows)
    ]
