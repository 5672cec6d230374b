"""Sources of published wheels: releases of the package index, and nightlies."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from triage.git_history.repository import tags_for
from triage.git_history.timeline import CommitPosition, Timeline
from triage.model.address import Address
from triage.model.checks import REQUIRED, Text, file_key
from triage.model.errors import Unobtainable
from triage.toolchains.index import Release
from triage.toolchains.install import Package, is_intact
from triage.toolchains.sources.base import (
    Build,
    Tags,
    Url,
)

_SECONDS = 15.0  # of a download and an install
_STAMP = re.compile(r"(?<!\d)(20\d{12})(?!\d)")


@dataclass(frozen=True)
class ReleasesSection:
    """Releases of the package index."""

    tags: Tags = file_key(REQUIRED, "Which tags mark a release's commit.", "v{version}")


@dataclass(frozen=True)
class NightliesSection:
    """Nightly wheels."""

    find_links: Url | None = file_key(
        None, "A page of links to wheels.", alias="find-links"
    )
    index: Url | None = file_key(None, "A simple index that holds the wheels.")
    distribution: Text | None = file_key(
        None, "The wheels' name where it differs from the releases'."
    )
    tags: Tags = file_key((), "Which tags mark a nightly's commit.", "v{version}")

    def __post_init__(self) -> None:
        if (self.find_links is None) == (self.index is None):
            raise ValueError(
                "nightlies come from one page: give either find-links (a page of "
                "links) or index."
            )

    def package(self, releases: Package) -> Package:
        """Return the nightlies of a project with these releases."""
        return replace(
            releases,
            distribution=self.distribution or releases.distribution,
            address=Address(self.index or self.find_links or ""),
            is_page=self.index is None,
            nightly=True,
        )


@dataclass(frozen=True)
class Wheels:
    """The releases or nightlies of a package, by their commits."""

    package: Package
    tags: Sequence[str]
    """Patterns such as `v{version}`."""

    @property
    def name(self) -> str:
        return "nightlies" if self.package.nightly else "releases"

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return the wheels whose commit is in the range, by their tags, or by the time
        of the commit in their versions, unless commits share it.
        """
        by_sha: dict[str, int] = {}
        by_time: dict[str, list[int]] = defaultdict(list)
        for index in indices:
            commit = timeline.commits[index]
            by_sha[commit.sha] = index
            moment = datetime.fromisoformat(commit.date).astimezone(UTC)
            by_time[f"{moment:%Y%m%d%H%M%S}"].append(index)
        builds = []
        for release in self.package.listed:
            version = release.version
            shas = set(tags_for(version, self.tags, timeline.tags).values())
            stamp = _STAMP.search(version)
            places = [by_sha[sha] for sha in shas if sha in by_sha]
            if stamp and not shas:
                places = by_time[stamp[1]]
            is_meant = release.nightly or release.is_stable
            if is_meant and len(places) == 1 and len(shas) < 2:
                builds.append(self._build(release, timeline, places[0]))
        return sorted(builds, key=lambda build: build.position.index)

    def _build(self, release: Release, timeline: Timeline, index: int) -> Build:
        seconds, commit = _SECONDS, timeline.commits[index]
        if is_intact(self.package.folder(release)):
            seconds = 0.0
        day = release.date or commit.date[:10]
        revision = replace(commit.revision, name=release.version, date=day)
        position = CommitPosition(index, commit.sha)
        return Build(self.name, revision, position, seconds, release.version)

    def obtain(self, build: Build, package: str | None = None) -> Path:
        if package is not None:
            return self.package.companion(package, build.item)
        for release in self.package.listed:
            if release.version == build.item:
                return self.package.install(release)
        raise Unobtainable(
            f"{self.package.url} lists no {self.package.distribution} "
            f"{build.item} for this platform"
        )
