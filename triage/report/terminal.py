"""A document on a terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from triage.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Table,
    plain_text,
    shown_columns,
    spans,
)

_WHOLE = 64  # characters of a word that is not broken in the first column
_STYLES = {"good": "green", "bad": "bold red", "warning": "yellow", "dim": "dim", "strong": "bold", "code": "", "plain": ""}


def terminal(document: Document) -> Iterable[RenderableType]:
    """Return what a terminal shows of a document, without its title."""
    return _rendered(document.blocks)


def inline(text: Inline) -> Text:
    """Return an inline text in the terminal's colours."""
    shown = Text()
    for span in spans(text):
        shown.append(span.text, style=_STYLES[span.style])
        if span.url and span.url != span.text and "://" in span.url:
            shown.append(f" {span.url}", style="dim")
    return shown


def _rendered(blocks: Sequence[Block]) -> Iterable[RenderableType]:
    for number, block in enumerate(blocks):
        match block:
            case Heading(text):
                heading = inline(text)
                heading.stylize("underline")
                if number:
                    yield Text("")
                yield heading
            case Paragraph(text):
                yield inline(text)
            case Bullets(items):
                for item in items:
                    yield Padding(Text("• ").append_text(inline(item)), (0, 0, 0, 2))
            case Facts(rows):
                yield _facts(rows)
            case Table() as table:
                yield _table(table)
            case Code(text):
                yield Padding(Text(text.strip("\n")), (0, 0, 0, 4))
            case Details(summary, inner):
                yield Text(summary, style="dim")
                yield from _rendered(inner)


def _facts(rows: Sequence[tuple[str, Inline]]) -> RenderableType:
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(name, inline(text))
    return Padding(grid, (0, 0, 0, 2))


def _table(table: Table) -> RenderableType:
    shown = shown_columns(table)
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(table.columns))
    for place, number in enumerate(shown):
        words = [word for row in table.rows for word in plain_text(row[number]).split()]
        whole = min(max(map(len, words), default=0), _WHOLE) if place == 0 else None  # names and flags are copied
        grid.add_column(table.columns[number], overflow="fold", min_width=whole)
    for row in table.rows:
        grid.add_row(*(inline(row[number]) for number in shown))
    return grid
