"""A document as GitHub-flavoured Markdown and as HTML, in which text from outside means
nothing but its characters.

Text is escaped, and so cannot become a link, an image, HTML, a heading, a mention or an
issue number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup, escape

from triage.report import document as doc
from triage.report.printable import portable, printable

if TYPE_CHECKING:
    from jinja2 import Environment

_SPECIAL = re.compile(
    r"[\\`*\[\]<>|~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\."
)
_BLOCK_START = re.compile(r" ?(?:[#>+=-]|\d+(?=[.)](?:\s|$)))")
_BLANKS = re.compile(r"\s+")
_REFERENCE = re.compile(r"[@#](?=\w)|(?<=GH)-(?=\d)")


def markdown_text(result: object, document: doc.Document) -> str:  # noqa: ARG001 - a format gets both
    """Return a document with its title, for issues and job summaries."""
    return document_markdown([doc.Heading(document.title, 1), *document.blocks])


def document_markdown(blocks: Sequence[doc.Block], longest: int | None = None) -> str:
    """Return blocks as Markdown. Those that do not fit into `longest` bytes are left
    out, which the last line says.
    """
    texts = [_block_markdown(block) for block in blocks]
    if longest is None:
        return "\n\n".join(texts)
    parts: list[str] = []
    room = longest - 100  # for the last line
    for text in texts:
        size = len(text.encode()) + 2
        if size <= room:
            parts.append(text)
            room -= size
    if len(parts) < len(texts):
        parts.append(
            f"*Parts of this text are left out here: the whole exceeds {longest} "
            "bytes.*"
        )
    return "\n\n".join(parts) + "\n"


def _block_markdown(part: doc.Block) -> str:
    match part:
        case doc.Heading(text, level):
            return f"{'#' * level} {_inline(text)}"
        case doc.Bullets(items):
            return "\n".join(f"- {_inline(item)}" for item in items)
        case doc.Facts(rows):
            return "\n".join(
                f"- {escaped(name)}: {_inline(text)}" if name else f"  {_inline(text)}"
                for name, text in rows
            )
        case doc.Table() as table:
            shown = doc.shown_columns(table)
            lines = [
                [escaped(table.columns[number]) for number in shown],
                ["---"] * len(shown),
            ]
            lines += [
                [_inline(row[number], in_cell=True) for number in shown]
                for row in table.rows
            ]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case doc.Code(text, language):
            return fenced(text, language)
        case doc.Details(summary, inner):
            one_line = " ".join(portable(summary).split())
            shown_summary = re.sub(
                r"(?<!&)[@#](?=\w)", r"\g<0>&#8203;", str(escape(one_line))
            )
            return (
                f"<details><summary>{shown_summary}</summary>\n\n"
                f"{document_markdown(inner)}\n\n</details>"
            )
        case _:
            return _inline(part)


def _inline(text: doc.Inline, *, in_cell: bool = False) -> str:
    parts = []
    for span in doc.spans(text):
        shown = escaped(span.text)
        if span.style == "code":
            shown = code(span.text)
            if in_cell:
                shown = shown.replace("|", "\\|")
        if span.style in ("strong", "bad"):
            shown = f"**{shown}**"
        address = _address(span.url)
        if address:
            shown = f"[{shown}]({quote(address, safe=':/?#&=%+,;@~')})"
        parts.append(shown)
    return "".join(parts)


def escaped(text: str) -> str:
    """Escape a text for a paragraph, a list item or a table cell: one line that means
    nothing but its characters.
    """
    line = _SPECIAL.sub(r"\\\g<0>", _BLANKS.sub(" ", portable(text)))
    # GitHub links names and numbers, escaped or not
    line = _REFERENCE.sub("\\g<0>&#8203;", line)
    start = _BLOCK_START.match(line)
    if start:
        # the escape stands before a character, or after a number
        is_number = start[0].strip().isdigit()
        position = start.end() if is_number else start.end() - 1
        line = f"{line[:position]}\\{line[position:]}"
    return line


def code(text: str) -> str:
    """Return inline code."""
    line = " ".join(portable(text).split()) or " "
    marks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    if line.startswith("`") or line.endswith("`"):
        line = f" {line} "
    return f"{marks}{line}{marks}"


def fenced(text: str, language: str = "") -> str:
    """Return a fenced code block that nothing in the text closes, and that a CI log may
    show.
    """
    marks = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    return f"{marks}{language}\n{printable(portable(text)).strip(chr(10))}\n{marks}"


def html_text(result: object, document: doc.Document) -> str:  # noqa: ARG001 - a format gets both
    """Return a document as a complete page without scripts."""
    return (
        html_templates()
        .get_template("page.html.j2")
        .render(title=document.title, blocks=document.blocks)
    )


def fragment(blocks: Sequence[doc.Block]) -> Markup:
    """Return blocks as HTML, to be placed in a page."""
    return Markup(_macros().fragment(blocks))  # noqa: S704 - the template escapes


def inline_markup(text: doc.Inline) -> Markup:
    """Return an inline text as HTML."""
    return Markup(_macros().inline(text))  # noqa: S704 - the template escapes


def html_templates() -> Environment:
    """Return the environment of all templates: every value is escaped, and its control
    characters are shown.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # slow to import

    environment = Environment(
        loader=PackageLoader("triage.report"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: portable(value) if type(value) is str else value,
    )
    environment.globals.update(
        spans=doc.spans,
        shown_columns=doc.shown_columns,
        kind_of=lambda block: type(block).__name__,
        address=_address,
    )
    return environment


@cache
def _macros() -> Any:
    return html_templates().get_template("document.html.j2").module


def _address(url: str | None) -> str | None:
    """Return the address of a web page or of a file next to the report, and nothing for
    another one, such as a script.
    """
    if url and re.match(r"https?://|[^:/]*(?:/|\Z)", url):
        return url
    return None
