"""A document as HTML, and as a page of its own."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from triage.report import document as doc
from triage.report.printable import visible

_PAGE = Markup(
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<title>{title}</title>\n<style>\n"
    "body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }}\n"
    ":root {{ color-scheme: light dark }}\n"
    "table {{ border-collapse: collapse }} th, td {{ text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0 }}\n"
    "pre {{ overflow-x: auto; padding: .7rem; border: 1px solid #8886 }} dt {{ font-weight: 600 }}\n"
    ".good {{ color: #1a7f37 }} .bad {{ color: #cf222e }} .warning {{ color: #9a6700 }} .dim {{ opacity: .7 }}\n"
    ".strong {{ font-weight: 600 }} .facts {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem }}\n"
    "dd {{ margin: 0; overflow-wrap: anywhere }}\n"
    "</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
)


def html_text(result: object, document: doc.Document) -> str:  # noqa: ARG001 - a format gets both
    """Return a document as a complete page without scripts."""
    return _PAGE.format(title=visible(document.title), body=fragment(document.blocks))


def fragment(blocks: Sequence[doc.Block]) -> Markup:
    """Return blocks as HTML, to be placed in a page."""
    return Markup("\n").join(_block(block) for block in blocks)


def inline(text: doc.Inline) -> Markup:
    """Return an inline text as HTML."""
    return Markup("").join(_span(span.text, span.style, span.url) for span in doc.spans(text))


def _span(text: str, style: str, url: str | None) -> Markup:
    shown = escape(visible(text))
    if style == "code":
        shown = Markup("<code>{}</code>").format(shown)
    elif style != "plain":
        shown = Markup('<span class="{}">{}</span>').format(style, shown)
    if url and (url.startswith(("https://", "http://")) or ":" not in url.split("/")[0]):
        shown = Markup('<a href="{}" rel="noreferrer">{}</a>').format(visible(url), shown)
    return shown


def _block(block: doc.Block) -> Markup:
    match block:
        case doc.Heading(text, level):
            return Markup("<h{0}>{1}</h{0}>").format(min(level, 3), inline(text))
        case doc.Paragraph(text):
            return Markup("<p>{}</p>").format(inline(text))
        case doc.Bullets(items):
            points = Markup("\n").join(Markup("<li>{}</li>").format(inline(item)) for item in items)
            return Markup("<ul>\n{}\n</ul>").format(points)
        case doc.Facts(rows):
            pairs = (Markup("<dt>{}</dt><dd>{}</dd>").format(visible(name), inline(text)) for name, text in rows)
            return Markup('<dl class="facts">\n{}\n</dl>').format(Markup("\n").join(pairs))
        case doc.Table() as table:
            shown = doc.shown_columns(table)
            heads = Markup("").join(Markup("<th>{}</th>").format(visible(table.columns[number])) for number in shown)
            lines = []
            for row in table.rows:
                cells = Markup("").join(Markup("<td>{}</td>").format(inline(row[number])) for number in shown)
                lines.append(Markup("<tr>{}</tr>").format(cells))
            head = Markup("<thead><tr>{}</tr></thead>\n").format(heads) if any(table.columns) else ""
            return Markup('<table class="sortable">\n{}<tbody>\n{}\n</tbody></table>').format(head, Markup("\n").join(lines))
        case doc.Code(text):
            return Markup('<pre tabindex="0">{}</pre>').format(visible(text.strip("\n")))
        case doc.Details(summary, inner):
            return Markup("<details><summary>{}</summary>\n{}\n</details>").format(visible(summary), fragment(inner))


def html_templates() -> Environment:
    """Return the environment of the site's templates: every value is escaped, and its control characters are shown."""
    return Environment(
        loader=PackageLoader("triage.report"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
