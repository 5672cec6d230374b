"""Jinja templates for Markdown and for scripts, and how a text from outside stands in Markdown.

A template's value is plain text unless it is `Markdown`: it is escaped, and so cannot become a link, an image, HTML, a heading,
a mention or an issue number. A value that forgets its filter is therefore safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape

from triage.report import document as doc
from triage.report.printable import visible

_SPECIAL = re.compile(r"[\\`*\[\]<>|~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.")
_BLOCK_START = re.compile(r" ?(?:[#>+=-]|\d+(?=[.)](?:\s|$)))")
_BLANKS = re.compile(r"\s+")
_REFERENCE = re.compile(r"[@#](?=\w)|(?<=GH)-(?=\d)")


class Markdown(str):
    """Text that is Markdown already, so that templates do not escape it."""

    __slots__ = ()


def plain(text: object) -> Markdown:
    """Escape a text for a paragraph, a list item or a table cell: one line that means nothing but its characters."""
    line = _SPECIAL.sub(r"\\\g<0>", _BLANKS.sub(" ", visible(str(text))))
    line = _REFERENCE.sub("\\g<0>&#8203;", line)  # GitHub links names and numbers, escaped or not
    if start := _BLOCK_START.match(line):
        place = start.end() - (not start[0].strip().isdigit())  # before the character, or after the number
        line = f"{line[:place]}\\{line[place:]}"
    return Markdown(line)


def code(text: object) -> Markdown:
    """Return inline code."""
    line = " ".join(visible(str(text)).split()) or " "
    marks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    if line.startswith("`") or line.endswith("`"):
        line = f" {line} "
    return Markdown(f"{marks}{line}{marks}")


def cell_code(text: object) -> Markdown:
    """Return inline code for the cell of a table."""
    return Markdown(code(text).replace("|", "\\|"))


def block(text: object, language: str = "") -> Markdown:
    """Return a fenced code block that nothing in the text closes."""
    marks = fence(str(text))
    return Markdown(f"{marks}{language}\n{visible(str(text)).strip(chr(10))}\n{marks}")


def fence(text: str) -> str:
    """Return a fence that nothing in the text closes."""
    return "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])


def link(text: object, url: str | None) -> Markdown:
    """Return a link to a page of the web or to a file beside the report; only the text for any other address."""
    shown = text if isinstance(text, Markdown) else plain(text)
    if not url or not re.match(r"https?://|(?![\w+.-]*:)", url):
        return shown
    return Markdown(f"[{shown}]({quote(url, safe=':/?#&=%+,;@~')})")


def markdown_text(result: object, document: doc.Document) -> str:  # noqa: ARG001 - a format gets both
    """Return a document as Markdown with its title, for issues and job summaries."""
    return document_markdown([doc.Heading(document.title, 1), *document.blocks]) + "\n"


def document_markdown(blocks: Sequence[doc.Block], level: int = 0) -> Markdown:
    """Return blocks as GitHub-flavoured Markdown. level: how many levels deeper headings stand."""
    return Markdown("\n\n".join(_block_markdown(part, level) for part in blocks))


def _block_markdown(part: doc.Block, level: int) -> str:
    match part:
        case doc.Heading(text, depth):
            return f"{'#' * (depth + level)} {_inline(text)}"
        case doc.Paragraph(text):
            return _inline(text)
        case doc.Bullets(items):
            return "\n".join(f"- {_inline(item)}" for item in items)
        case doc.Facts(rows):
            return "\n".join(f"- {plain(name)}: {_inline(text)}" if name else f"  {_inline(text)}" for name, text in rows)
        case doc.Table() as table:
            return _table(table)
        case doc.Code(text, language):
            return block(text, language)
        case doc.Details(summary, inner):
            shown = re.sub(r"(?<!&)[@#](?=\w)", r"\g<0>&#8203;", str(escape(visible(summary))))
            return f"<details><summary>{shown}</summary>\n\n{document_markdown(inner, level)}\n\n</details>"


def _table(table: doc.Table) -> str:
    shown = doc.shown_columns(table)
    lines: list[list[str]] = [[plain(table.columns[number]) for number in shown], ["---"] * len(shown)]
    lines += [[_inline(row[number], in_cell=True) for number in shown] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _inline(text: doc.Inline, *, in_cell: bool = False) -> str:
    parts = []
    for span in doc.spans(text):
        shown = (cell_code if in_cell else code)(span.text) if span.style == "code" else _escaped(span.text)
        if span.style in ("strong", "bad"):
            shown = Markdown(f"**{shown}**")
        parts.append(link(shown, span.url))
    return "".join(parts)


def _escaped(text: str) -> Markdown:
    """Escape a text that may begin or end with a blank, which joins it to its neighbours."""
    inner = text.strip()
    return (
        Markdown(f"{' ' * text[:1].isspace()}{plain(inner)}{' ' * text[-1:].isspace()}")
        if inner
        else Markdown(" " * bool(text))
    )


def render_markdown(template: str, **values: object) -> Markdown:
    """Return what a template makes of values. Every report's Markdown comes from here, so that nothing is left unescaped."""
    return Markdown(markdown_templates().get_template(template).render(values))


def bounded(render: Callable[[int], str], rows: Sequence[int], longest: int) -> str:
    """Return the text with the most rows that has at most `longest` bytes. rows: numbers of rows to try, the largest first.

    Where even the least is too long, it is cut at a line, and its last line says how much is missing.
    """
    text = ""
    for count in rows:
        text = render(count).rstrip("\n") + "\n"
        if len(text.encode()) <= longest:
            return text
    room = longest - 200  # for the last lines
    kept = text.encode()[:room].decode("utf-8", "ignore").rpartition("\n")[0]
    fences = [line for line in kept.splitlines() if re.match(r"`{3,}", line)]
    closing = f"\n{re.match('`+', fences[-1])[0]}" if len(fences) % 2 else ""  # type: ignore[index]
    closing += "\n\n</details>" * (kept.count("\n<details>") - kept.count("\n</details>"))
    missing = len(text.encode()) - len(kept.encode())
    return f"{kept}{closing}\n\n*{missing} bytes are left out here; the whole text exceeds {longest} bytes.*\n"


def markdown_templates() -> Environment:
    """Return the environment of the Markdown templates."""
    environment = _environment(lambda value: value if isinstance(value, Markdown) else plain(value))
    environment.filters.update(code=code, cell_code=cell_code, block=block, markdown=lambda text: Markdown(visible(str(text))))
    environment.globals.update(link=link)
    return environment


def html_templates() -> Environment:
    """Return the environment of the HTML templates: every value is escaped, and its control characters are shown."""
    return Environment(
        loader=PackageLoader("triage.report"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )


def plain_templates() -> Environment:
    """Return the environment of the templates that are neither HTML nor Markdown."""
    return _environment(visible)


def _environment(escape: Callable[[str], str]) -> Environment:
    def finalize(value: object) -> object:
        return escape(value) if isinstance(value, str) else value

    return Environment(  # noqa: S701 - finalize escapes
        loader=PackageLoader("triage.report"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
