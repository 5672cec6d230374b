"""Sources of published wheels: releases of the package index, and nightlies."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Self

from packaging.version import Version
from pydantic import Field, model_validator

from triage.git_history import CommitPosition, Timeline
from triage.git_history.refs import day_in, tags_for
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.revision import Revision
from triage.recipes.mapping import Text
from triage.toolchains.index import Index, Release, read_page, stored_page
from triage.toolchains.install import install, install_companion
from triage.toolchains.install_cache import folder_of, is_intact
from triage.toolchains.sources.base import Offer, SourceContext, SourceSection, Tags, Url
from triage.toolchains.web import without_password
from triage.toolchains.workspace import Workspace

_SECONDS = 15.0  # of a download and an install, until there are timings
_STAMP = re.compile(r"(?<!\d)(20\d{12})(?!\d)")
_DAY = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)")


class ReleasesSection(SourceSection):
    """Releases of the package index."""

    tags: Tags = Field(description="Which tags mark a release's commit.", examples=["v{version}"])

    @property
    def needs_distribution(self) -> bool:
        return True

    def open(self, context: SourceContext) -> Releases:
        return Releases(context.workspace, context.distribution or "", self.tags)


class NightliesSection(SourceSection):
    """Nightly wheels."""

    find_links: Url | None = Field(default=None, alias="find-links", description="A page of links to wheels.")
    index: Url | None = Field(default=None, description="A simple index that holds the wheels.")
    distribution: Text | None = Field(default=None, description="The wheels' name where it differs from the releases'.")
    tags: Tags = Field(default=(), description="Which tags mark a nightly's commit.", examples=["v{version}"])

    @model_validator(mode="after")
    def _one_page(self) -> Self:
        if (self.find_links is None) == (self.index is None):
            raise ValueError("nightlies come from one page: give either find-links (a page of links) or index.")
        return self

    @property
    def needs_distribution(self) -> bool:
        return self.distribution is None

    def open(self, context: SourceContext) -> Nightlies:
        return self.of(context.workspace, context.distribution)

    def of(self, workspace: Workspace, distribution: str | None) -> Nightlies:
        """The source, for a project whose wheels have this name."""
        name = self.distribution or distribution or ""
        return Nightlies(workspace, name, self.index or self.find_links or "", self.tags, is_index=self.index is not None)


class _Wheels(ABC):
    """Wheels that a page lists."""

    name: str

    def __init__(self, workspace: Workspace, distribution: str, tags: Sequence[str], page: str) -> None:
        """tags: patterns such as `v{version}`; page: the address of the list, or of the index."""
        self._workspace = workspace
        self._distribution = distribution
        self._tags = tuple(tags)
        self._page = page
        self._kind = f"{self.name}:{distribution}"

    @property
    @abstractmethod
    def listed(self) -> Mapping[str, Release]:
        """The wheels for this platform by version, oldest first. EnvironmentFailure when they cannot be listed."""

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """Return the wheels whose commit is in the range. That of a branch is placed where the branch left the timeline."""
        offers = []
        for version, release in self.listed.items():
            position = self._position(version, timeline)
            if position is None or position.index not in indices:
                continue
            is_installed = is_intact(folder_of(self._workspace.toolchains, self._distribution, release))
            seconds = 0.0 if is_installed else self._workspace.costs.seconds(self._kind, _SECONDS)
            commit = timeline.commits[position.index]
            day = day_in(version) or release.date or commit.date[:10]
            revision = Revision(version, position.sha or None, day, commit.subject if position.exact else None)
            offers.append(Offer(self.name, revision, position, seconds, version))
        return sorted(offers, key=lambda offer: (offer.position.index, Version(offer.item)))

    def obtain(self, offer: Offer, package: str | None = None) -> Path:
        return self.obtain_version(offer.item, package)

    @abstractmethod
    def obtain_version(self, version: str, package: str | None = None) -> Path:
        """Return the folder of a version, or of another package of it. Errors as of `obtain`."""

    def _install(self, version: str) -> Path:
        release = self.listed.get(version)
        if release is None:
            raise Unobtainable(f"{without_password(self._page)} lists no {self._distribution} {version} for this platform")
        folder = folder_of(self._workspace.toolchains, self._distribution, release)
        if is_intact(folder):
            return folder
        with self._workspace.costs.timing(self._kind):
            return install(self._workspace, self._distribution, release, self._page)

    def _position(self, version: str, timeline: Timeline) -> CommitPosition | None:
        """Return where the tag of a version lies, unless two tags name different commits or it shares no history."""
        tags = tags_for(version, self._tags, timeline.tag)
        if len({tag.sha for tag in tags}) != 1:
            return None
        with suppress(BadInput):
            return timeline.place(tags[0].sha)
        return None


class Releases(_Wheels):
    """Stable releases that were not yanked and have a tag in the repository."""

    name = "releases"

    def __init__(self, workspace: Workspace, distribution: str, tags: Sequence[str]) -> None:
        self._index = Index(workspace)
        super().__init__(workspace, distribution, tags, self._index.url)

    @cached_property
    def listed(self) -> Mapping[str, Release]:
        releases = self._index.releases(self._distribution)
        return {release.version: release for release in releases if not (release.prerelease or release.yanked)}

    def obtain_version(self, version: str, package: str | None = None) -> Path:
        if package is not None:
            return install_companion(self._workspace, package, version, self._index)
        return self._install(version)


class Nightlies(_Wheels):
    """Wheels on a page of links. Their commits are those of tags, or of the times in their versions."""

    name = "nightlies"

    def __init__(
        self, workspace: Workspace, distribution: str, address: str, tags: Sequence[str] = (), *, is_index: bool = False
    ) -> None:
        """`address`: of the page, or of an index with a page for each package."""
        self._address = address
        self._is_index = is_index
        self._others: dict[str, Nightlies] = {}
        super().__init__(workspace, distribution, tags, f"{address.rstrip('/')}/{distribution}/" if is_index else address)

    @cached_property
    def listed(self) -> Mapping[str, Release]:
        try:
            wheels = read_page(self._workspace, self._page, self._distribution)
        except EnvironmentFailure as error:
            wheels = stored_page(self._workspace, self._page, self._distribution)
            if not wheels:
                raise EnvironmentFailure(f"{error}; releases need no list of nightlies") from error
            self._workspace.progress.note(f"{error}\nusing the list of nightlies from the last time")
        return {wheel.version: wheel for wheel in wheels}

    def obtain_version(self, version: str, package: str | None = None) -> Path:
        if package is None:
            return self._install(version)
        if package not in self._others:
            self._others[package] = Nightlies(self._workspace, package, self._address, is_index=self._is_index)
        return self._others[package].obtain_version(version)

    def of_day(self, day: str) -> Revision:
        """Return the newest nightly of a day, `2025-06-04` or `20250604`, or of all days for `latest`.

        Raises:
            BadInput: `day` is not a day.
            EnvironmentFailure: there is no nightly of that day, or the page cannot be read.
        """
        parts = _DAY.fullmatch(day)
        if parts is None and day != "latest":
            raise BadInput(f"'nightly:{day}' names no day: write nightly:2025-06-04 or nightly:latest")
        wanted = "-".join(parts.groups()) if parts else "9999"
        older = [revision for revision in self.revisions() if revision.date and revision.date <= wanted]
        chosen = [revision for revision in older if parts is None or revision.date == wanted]
        if not chosen:
            near = f"; the newest before it is of {older[-1].date}" if older else ""
            raise EnvironmentFailure(f"{without_password(self._page)} has no nightly of {day}{near}")
        return chosen[-1]

    def revisions(self) -> tuple[Revision, ...]:
        """Return all nightlies, oldest first."""
        return tuple(Revision(version, date=day_in(version) or wheel.date) for version, wheel in self.listed.items())

    def _position(self, version: str, timeline: Timeline) -> CommitPosition | None:
        """Return where a nightly lies by its tag, by the time in its version or, not exactly, by its day."""
        if position := super()._position(version, timeline):
            return position
        stamp, day = _STAMP.search(version), day_in(version)
        if stamp and (index := _indices_by_time(timeline).get(stamp.group(1))) is not None:
            return CommitPosition(index, timeline.commits[index].sha)
        if day is not None:
            with suppress(BadInput):  # a nightly is built from the newest commit at the beginning of its day, or an older one
                return CommitPosition(timeline.newest_at(f"{day}T00:00:00+00:00"), "", exact=False)
        return None


@lru_cache(maxsize=2)
def _indices_by_time(timeline: Timeline) -> Mapping[str, int]:
    """Return the commits by their time in UTC, such as 20240716052845, which some versions of nightlies contain.

    A merge queue makes several commits in one second, of which a time names none.
    """
    times = [datetime.fromisoformat(commit.date).astimezone(UTC).strftime("%Y%m%d%H%M%S") for commit in timeline.commits]
    counts = Counter(times)
    return {time: index for index, time in enumerate(times) if counts[time] == 1}
