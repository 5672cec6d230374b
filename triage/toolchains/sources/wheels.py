"""Sources of published wheels: releases of the package index, and nightlies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Self

from packaging.version import Version
from pydantic import Field, model_validator

from triage.compilers.base import Environment, Packaging
from triage.git_history.repository import day_in, tags_for
from triage.git_history.timeline import CommitPosition, Timeline
from triage.model.address import Address
from triage.model.errors import BadInput, Unobtainable
from triage.model.revision import Revision
from triage.recipes.mapping import MappingFormat, Text
from triage.toolchains.home import Workspace
from triage.toolchains.index import Index
from triage.toolchains.install import PLAIN_WHEEL, Package, is_intact
from triage.toolchains.sources.base import (
    Build,
    Tags,
    Url,
)

_SECONDS = 15.0  # of a download and an install
_STAMP = re.compile(r"(?<!\d)(20\d{12})(?!\d)")


class ReleasesSection(MappingFormat):
    """Releases of the package index."""

    tags: Tags = Field(
        description="Which tags mark a release's commit.", examples=["v{version}"]
    )


class NightliesSection(MappingFormat):
    """Nightly wheels."""

    find_links: Url | None = Field(
        default=None, alias="find-links", description="A page of links to wheels."
    )
    index: Url | None = Field(
        default=None, description="A simple index that holds the wheels."
    )
    distribution: Text | None = Field(
        default=None,
        description="The wheels' name where it differs from the releases'.",
    )
    tags: Tags = Field(
        default=(),
        description="Which tags mark a nightly's commit.",
        examples=["v{version}"],
    )

    @model_validator(mode="after")
    def _one_page(self) -> Self:
        if (self.find_links is None) == (self.index is None):
            raise ValueError(
                "nightlies come from one page: give either find-links (a page of "
                "links) or index."
            )
        return self

    def package(
        self, workspace: Workspace, distribution: str | None, packaging: Packaging
    ) -> Package:
        """Return the nightlies of a project whose releases have this name and are
        installed so. They are unpacked, unless the compiler needs a virtual
        environment.
        """
        page = Address(self.index or self.find_links or "")
        index = Index(workspace, page, is_page=self.index is None, nightly=True)
        if not isinstance(packaging, Environment):
            packaging = PLAIN_WHEEL
        return Package(
            workspace, self.distribution or distribution or "", index, packaging
        )


@dataclass(frozen=True)
class Wheels:
    """The releases or nightlies of a package, by their commits."""

    package: Package
    tags: Sequence[str]
    """Patterns such as `v{version}`."""

    @property
    def name(self) -> str:
        return "nightlies" if self.package.index.nightly else "releases"

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return the wheels whose commit is in the range. A commit of a branch is
        placed where the branch left the timeline.
        """
        builds = []
        for release in self.package.listed():
            version = release.version
            position = self._position(version, timeline)
            is_meant = release.nightly or release.is_stable
            if not is_meant or position is None or position.index not in indices:
                continue
            commit = timeline.commits[position.index]
            revision = Revision(
                version,
                position.sha or None,
                day_in(version) or release.date or commit.date[:10],
                commit.subject if position.exact else None,
            )
            is_here = is_intact(self.package.folder(release))
            seconds = 0.0 if is_here else _SECONDS
            builds.append(Build(self.name, revision, position, seconds, version))
        return sorted(
            builds, key=lambda build: (build.position.index, Version(build.item))
        )

    def obtain(self, build: Build, package: str | None = None) -> Path:
        if package is not None:
            return self.package.companion(package, build.item)
        for release in self.package.listed():
            if release.version == build.item:
                return self.package.install(release)
        raise Unobtainable(
            f"{self.package.index.url} lists no {self.package.distribution} "
            f"{build.item} for this platform"
        )

    def _position(self, version: str, timeline: Timeline) -> CommitPosition | None:
        """Return the position of a version's commit. It is found by the version's tag,
        by the time in the version, or roughly by the day in it.
        """
        tags = tags_for(version, self.tags, timeline.tags)
        if len(set(tags.values())) == 1:
            with suppress(BadInput):  # it shares no history with the timeline
                return timeline.place(next(iter(tags.values())))
            return None
        stamp, day = _STAMP.search(version), day_in(version)
        if stamp:
            index = _indices_by_time(timeline).get(stamp.group(1))
            if index is not None:
                return CommitPosition(index, timeline.commits[index].sha)
        if day is not None:
            # A nightly is built from the newest commit at the beginning of its day, or
            # from an older one.
            with suppress(BadInput):
                index = timeline.newest_at(f"{day}T00:00:00+00:00")
                return CommitPosition(index, "", exact=False)
        return None


@lru_cache(maxsize=2)
def _indices_by_time(timeline: Timeline) -> Mapping[str, int]:
    """Return the index of each commit by its time in UTC, such as 20240716052845, which
    some versions of nightlies contain.

    Commits that share their second, as those of a merge queue, are left out.
    """
    times = [
        datetime.fromisoformat(commit.date).astimezone(UTC).strftime("%Y%m%d%H%M%S")
        for commit in timeline.commits
    ]
    counts = Counter(times)
    return {time: index for index, time in enumerate(times) if counts[time] == 1}
