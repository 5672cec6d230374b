"""A nightly as GitHub-flavoured Markdown, ready for a job summary."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from triage.classify import rule_for
from triage.nightly.compare import Night
from triage.report.words import headline_text, numbers_text, origin_pair, origin_story, untestable_reason


def markdown(night: Night) -> str:
    """The whole report. Texts of compilers are escaped for the place they stand in."""
    environment = Environment(  # noqa: S701 - Markdown, not HTML: `cell`, `fenced` and `ticks` escape what needs it
        loader=PackageLoader("triage.report"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
    environment.filters["fenced"] = lambda text: str(text).replace("```", "'''")
    environment.filters["ticks"] = lambda text: str(text).replace("`", "'")
    return environment.get_template("nightly.md.j2").render(
        night=night,
        headline=headline_text,
        numbers=numbers_text,
        origin=origin_pair,
        story=origin_story,
        rule_for=rule_for,
        why=untestable_reason,
    )
