"""Where two compilers part, as one HTML page that needs nothing beside itself."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from triage.attribute.excerpt import side_by_side
from triage.attribute.result import Attribution
from triage.report.attribution import facts, sentence
from triage.toolchains.home import disk_errors, write_whole

_ROWS = 4000


def attribution_page(found: Attribution) -> str:
    """The page. All texts of compilers and recipes are escaped."""
    environment = Environment(
        loader=PackageLoader("triage.report"), undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    excerpt = found.lasting.excerpt if found.lasting else None
    rows = list(islice(side_by_side(excerpt.good, excerpt.bad), _ROWS + 1)) if excerpt else []
    counts = list((found.phases[0].good or found.phases[0].bad or {}) if found.phases else ())
    return environment.get_template("attribution.html.j2").render(
        found=found,
        sentence=sentence(found),
        facts=list(facts(found)),
        counts=counts,
        rows=rows[:_ROWS],
        more=len(rows) > _ROWS,
    )


def write_attribution(found: Attribution, folder: Path) -> Path:
    """Write `attribution.html` below `folder`, in one step; its path."""
    path = folder / "attribution.html"
    with disk_errors(f"write the page to {folder}"):
        write_whole(path, attribution_page(found))
    return path
