"""Sources of published wheels: releases of the package index, and nightlies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.git_history.repository import tags_for
from triage.git_history.timeline import CommitPosition, Timeline
from triage.model.address import Address
from triage.model.checks import REQUIRED, file_key
from triage.model.errors import Unobtainable
from triage.toolchains.index import Release, index_url
from triage.toolchains.install import Package, is_intact
from triage.toolchains.sources.base import (
    Build,
    Tags,
    Url,
)

_SECONDS = 15.0  # of a download and an install


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
    index: Url | None = file_key(
        None, "A simple index that holds the wheels (default: that of the releases)."
    )
    tags: Tags = file_key((), "Which tags mark a nightly's commit.", "v{version}")

    def package(self, releases: Package) -> Package:
        """Return the nightlies of a project with these releases."""
        return replace(
            releases,
            address=Address(self.find_links or self.index or index_url().full),
            is_page=self.find_links is not None,
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
        """Return the wheels whose commit is in the range, by their tags."""
        by_sha = {timeline.commits[index].sha: index for index in indices}
        builds = []
        for release in self.package.listed:
            tags = tags_for(release.version, self.tags, timeline.tags)
            shas = set(tags.values())
            is_meant = release.nightly or release.is_stable
            if is_meant and len(shas) == 1 and shas <= by_sha.keys():
                index = by_sha[shas.pop()]
                builds.append(self._build(release, timeline, index))
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
