"""Where the compiler of a commit may come from, beside the releases: nightlies, artifacts, builds, a script."""

from triage.toolchains.sources.base import Offer, Prices, Source, Unobtainable, Workplace
from triage.toolchains.sources.project import ProjectFormat, find_project, load_project, parse_project, shipped_projects
from triage.toolchains.sources.registry import sources_of

__all__ = [
    "Offer",
    "Prices",
    "ProjectFormat",
    "Source",
    "Unobtainable",
    "Workplace",
    "find_project",
    "load_project",
    "parse_project",
    "shipped_projects",
    "sources_of",
]
