"""A document on a terminal, and consoles that show text from outside as it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import StringIO
from typing import IO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from triage.report import document as doc
from triage.report.printable import PrintedStream, printable

_PLAIN_WIDTH = 160  # columns assumed for pipes and files
_NARROWEST = 20  # columns
_STYLES = {
    "good": "green",
    "bad": "bold red",
    "warning": "yellow",
    "dim": "dim",
    "strong": "bold",
    "code": "",
    "plain": "",
}


class PrintableConsole(Console):
    """A console that shows text as it is: no control codes but its own, no markup, no
    links.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as every console does, with each text made safe."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                text = printable(segment.text, at_line_start=False)
                yield Segment(text, segment.style)


def console_for(stream: IO[str]) -> Console:
    """Create a console for a stream: as wide as the terminal, or 160 columns for a pipe
    or a file.
    """
    is_known = stream.isatty() or "COLUMNS" in os.environ
    width = None if is_known else _PLAIN_WIDTH
    # a terminal runs no commands of a CI system, and its console moves the cursor
    if isinstance(stream, PrintedStream):
        if stream.isatty():
            stream = stream.raw
        else:
            stream = cast(IO[str], PrintedStream(stream.raw, of_console=True))
    return PrintableConsole(
        file=stream,
        width=width,
        highlight=False,
        soft_wrap=not stream.isatty(),
        emoji=False,
        markup=False,
    )


def write(document: doc.Document, stream: IO[str], *, details: bool = False) -> None:
    """Write a document without its title: the command that was typed says it. No line
    ends with blanks where the stream is not a terminal. details: show what pages fold.
    """
    console = console_for(stream)
    for block in _renderables(document.blocks, console, details=details):
        # texts are wrapped below, and tables set this for their columns
        whole = partial(console.print, no_wrap=True, overflow="ignore", crop=False)
        if console.is_terminal:
            whole(block)
        else:
            with console.capture() as captured:
                whole(block)
            lines = captured.get().split("\n")
            stream.write("\n".join(line.rstrip() for line in lines))


def text(result: object, document: doc.Document) -> str:  # noqa: ARG001 - a format gets both
    """Return a document as a text for a person."""
    stream = StringIO()
    write(document, stream)
    return stream.getvalue()


def inline_text(shown: doc.Inline, *, addresses: bool = True) -> Text:
    """Return an inline text in the terminal's colours. addresses: show web addresses
    next to their texts.
    """
    line = Text()
    for span in doc.spans(shown):
        line.append(span.text, style=_STYLES[span.style])
        if addresses and span.url and span.url != span.text and "://" in span.url:
            line.append(f" {span.url}", style="dim")
    return line


def _renderables(
    blocks: Sequence[doc.Block], console: Console, *, details: bool
) -> Iterable[RenderableType]:
    for number, block in enumerate(blocks):
        match block:
            case doc.Heading(shown):
                heading = inline_text(shown)
                heading.stylize("underline")
                if number:
                    yield Text("")
                yield from _wrapped_lines(heading, console)
            case doc.Bullets(items):
                yield from _facts([("•", item) for item in items], console)
            case doc.Facts(rows):
                yield from _facts(rows, console)
            case doc.Table() as table:
                yield _table(table, console.width)
            case doc.Code(shown):
                # no line is cut in a pipe
                yield Text(
                    "\n".join(f"    {line}" for line in shown.strip("\n").split("\n"))
                )
            case doc.Details(summary, inner) if details:
                yield Text(summary, style="dim")
                yield from _renderables(inner, console, details=True)
            case doc.Details(summary):
                folded = Text(f"+ {summary} (-v)", style="dim")
                yield from _wrapped_lines(folded, console)
            case _:
                yield from _wrapped_lines(inline_text(block), console)


def _table(table: doc.Table, most: int) -> RenderableType:
    """Return a table whose widest columns are wrapped. A word is broken only where not
    even the longest words fit: names and flags are copied.
    """
    shown = doc.shown_columns(table)
    grid = Grid(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        show_header=any(table.columns),
    )
    for number in shown:
        column = table.columns[number]
        cells = (doc.plain_text(row[number]) for row in table.rows)
        words = " ".join((column, *cells)).split()
        longest = max(map(len, words), default=0)
        grid.add_column(column, overflow="fold", min_width=min(longest, most))
    for row in table.rows:
        grid.add_row(*(inline_text(row[number], addresses=False) for number in shown))
    return grid


def _facts(rows: Sequence[tuple[str, doc.Inline]], console: Console) -> Iterator[Text]:
    """Yield lines with the names in a column of their own."""
    column = max((len(name) for name, _ in rows), default=0)
    for name, fact in rows:
        margin = Text(f"  {name:{column}} ", style="dim")
        width = max(console.width - len(margin), _NARROWEST)
        for line in _lines(inline_text(fact), console, width):
            yield margin + line
            margin = Text(" " * len(margin))


def _wrapped_lines(shown: Text, console: Console) -> Iterator[Text]:
    """Yield the lines of a text, which is one line in a pipe."""
    if console.is_terminal:
        yield from _lines(shown, console, console.width)
    else:
        yield shown


def _lines(shown: Text, console: Console, width: int) -> Iterable[Text]:
    """Return lines that end between words: an address is never broken."""
    shown.overflow = "ignore"
    return shown.wrap(console, width)
