"""Where the compiler of a commit may come from, beside the releases: nightlies, artifacts, builds, a script."""

from triage.toolchains.sources.assembly import sources_of
from triage.toolchains.sources.port import Offer, Source, Unobtainable, Workplace
from triage.toolchains.sources.prices import Prices
from triage.toolchains.sources.project import ProjectFormat
from triage.toolchains.sources.project_file import find_project, load_project, parse_project, shipped_projects

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
