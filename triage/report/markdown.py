"""A nightly as GitHub-flavoured Markdown, ready for a job summary."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from triage.nightly.compare import Example, Night
from triage.report.words import example_text, headline_text, numbers_text, origin_pair, origin_story, untestable_reason


def plain_templates() -> Environment:
    """The templates of what is no HTML, with filters that escape a text for the place it stands in: the cell of a
    Markdown table, a fenced block, a word in back-ticks.
    """
    environment = Environment(  # noqa: S701 - see above
        loader=PackageLoader("triage.report"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
    environment.filters["fenced"] = lambda text: str(text).replace("```", "'''")
    environment.filters["ticks"] = lambda text: str(text).replace("`", "'")
    return environment


def markdown(night: Night) -> str:
    """The whole report. Texts of compilers are escaped for the place they stand in."""
    return (
        plain_templates()
        .get_template("nightly.md.j2")
        .render(
            night=night,
            headline=headline_text,
            numbers=numbers_text,
            origin=origin_pair,
            story=origin_story,
            why=untestable_reason,
            small=_example_link,
        )
    )


def _example_link(one: Example, name: str) -> str:
    """Links start from the report, which lies beside the folder of reproducers."""
    said = example_text(one, name).replace("<", "&lt;")
    if one.folder is None:
        return said
    place = f"{one.folder.parent.name}/{one.folder.name}"
    return f"{said.removesuffix(str(one.folder))}[{place}]({place}/README.md)"
