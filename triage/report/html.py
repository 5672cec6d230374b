"""A document as HTML, and as a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from triage.report import document as doc
from triage.report.printable import portable


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
    """Return the address of a web page or of a file next to the page, and nothing for
    another one, such as a script.
    """
    if url and (
        url.startswith(("https://", "http://")) or ":" not in url.split("/")[0]
    ):
        return url
    return None
