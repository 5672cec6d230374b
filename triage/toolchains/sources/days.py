"""Nightlies by their day, for whoever has no clone of the compiler."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from packaging.version import Version

from triage.git_history.refs import day_in
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import Revision
from triage.toolchains.sources.base import Prices, Workplace
from triage.toolchains.sources.nightly import Nightlies
from triage.toolchains.sources.project import find_project
from triage.toolchains.sources.registry import nightlies_of

_DAY = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)")


def nightly_of(family: str, day: str, place: Workplace) -> tuple[Revision, partial[Path]]:
    """The newest nightly of a day (`2025-06-04`, or `latest`), and what brings it.

    The project file here, or the shipped one, says where nightlies are. BadInput: no day, or no nightlies of the family;
    EnvironmentFailure: there is none of that day, or the page cannot be had.
    """
    project = find_project(family, Path())
    if project.nightlies is None:
        raise BadInput(f"{project.name} names no nightlies: add them to triage.yaml")
    found = _DAY.fullmatch(day)
    if found is None and day != "latest":
        raise BadInput(f"'nightly:{day}' names no day: write nightly:2025-06-04 or nightly:latest")
    nightlies: Nightlies = nightlies_of(project.nightlies, project, place, Prices(place.home / "prices.json"))
    days = {version: day_in(version) or listed.release.date for version, listed in nightlies.listed().items()}
    known = sorted((version for version, at in days.items() if at), key=Version)
    wanted = "-".join(found.groups()) if found else None
    chosen = [version for version in known if wanted is None or days[version] == wanted]
    if not chosen:
        near = [str(days[version]) for version in known if wanted is None or str(days[version]) <= wanted][-1:]
        raise EnvironmentFailure(
            f"there is no {family} nightly of {day}" + (f"; the one before is of {near[0]}" if near else "")
        )
    return Revision(chosen[-1], date=days[chosen[-1]]), partial(nightlies.bring, chosen[-1])
