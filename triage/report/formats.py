"""The formats that any report with the matching method can be written in: text, JSON, Markdown, HTML, SARIF."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from io import StringIO
from typing import IO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from triage.report.printable import PrintedStream, printable, visible
from triage.report.registry import HtmlReport, IssueReport, MarkdownReport, Report, SarifReport
from triage.report.shapes import as_json

_PLAIN_WIDTH = 160  # columns assumed for pipes and files


class PrintableConsole(Console):
    """A console that shows text as it is: no control codes but its own, no markup, no links."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as every console does, with each text made safe."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text, at_line_start=False), segment.style)


def console_for(stream: IO[str]) -> Console:
    """Create a console for a stream: as wide as the terminal, or 160 columns for a pipe or a file."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PLAIN_WIDTH
    if isinstance(stream, PrintedStream):  # a terminal runs no commands of a CI system, and its console moves the cursor
        stream = stream.raw if stream.isatty() else cast(IO[str], PrintedStream(stream.raw, of_console=True))
    return PrintableConsole(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty(), emoji=False, markup=False)


def write_blocks(blocks: Iterable[RenderableType], stream: IO[str]) -> None:
    """Write blocks to a stream, without trailing blanks where the stream is not a terminal."""
    console = console_for(stream)
    for block in blocks:
        if console.is_terminal:
            console.print(block)
            continue
        with console.capture() as captured:
            console.print(block)
        stream.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def text(report: Report) -> str:
    """Text for a person."""
    stream = StringIO()
    write_blocks(report.blocks(), stream)
    return stream.getvalue()


def json_text(report: Report) -> str:
    """Indented JSON for programs. A CI job that prints it finds no command of its own in a text."""
    return visible(json.dumps(as_json(report.shape()), indent=2)).replace("##[", "##\\u005b") + "\n"


def markdown(report: MarkdownReport) -> str:
    """Markdown for issues and job summaries."""
    return visible(report.markdown()).rstrip("\n") + "\n"


def github(report: IssueReport) -> str:
    """The text of an issue, by the headings of the project's form."""
    return report.issue().rstrip("\n") + "\n"


def html(report: HtmlReport) -> str:
    """A page for a browser."""
    return visible(report.html()).rstrip("\n") + "\n"


def sarif(report: SarifReport) -> str:
    """SARIF 2.1.0, which GitHub and editors show beside the source line."""
    return visible(json.dumps(report.sarif(), indent=2)) + "\n"
