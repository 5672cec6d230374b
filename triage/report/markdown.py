"""Jinja templates for Markdown and shell files, with filters that escape a text for its place."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def cell(text: object) -> str:
    """Escape a text for the cell of a Markdown table."""
    return str(text).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def fenced(text: object) -> str:
    """Escape a text for a fenced code block."""
    return str(text).replace("```", "'''")


def ticks(text: object) -> str:
    """Escape a text for inline code."""
    return str(text).replace("`", "'")


def plain_templates() -> Environment:
    """Return the environment of the templates that are not HTML."""
    environment = Environment(  # noqa: S701 - the filters escape for Markdown
        loader=PackageLoader("triage.report"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters.update(cell=cell, fenced=fenced, ticks=ticks)
    return environment
