"""Sources of published wheels: releases of the package index, and nightlies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Self

from packaging.version import Version
from pydantic import Field, model_validator

from triage.git_history import CommitPosition, Tag, Timeline
from triage.git_history.refs import day_in, tags_for
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.revision import Revision
from triage.recipes.mapping import Text
from triage.recipes.values import advice
from triage.toolchains.addresses import host_of
from triage.toolchains.index import Index, ListedWheel, Release, WheelPage
from triage.toolchains.install import download, install, install_companion, unpack
from triage.toolchains.install_cache import fill_folder, folder_of, is_intact
from triage.toolchains.sources.base import Offer, SourceContext
from triage.toolchains.sources.section import SourceSection, Tags, Url
from triage.toolchains.workspace import Workspace

_RELEASE_SECONDS = 10.0  # until there are timings
_NIGHTLY_SECONDS = 15.0
_STAMP = re.compile(r"(?<!\d)(20\d{12})(?!\d)")
_DAY = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)")


class ReleasesSection(SourceSection):
    """Releases of the package index."""

    noun: ClassVar[str] = "releases"

    tags: Tags = Field(description="Which tags mark a release's commit.", examples=["v{version}"])

    @property
    def needs_distribution(self) -> bool:
        return True

    def open(self, context: SourceContext) -> Releases:
        return Releases(context.workspace, context.distribution or "", self.tags)


class NightliesSection(SourceSection):
    """Nightly wheels."""

    noun: ClassVar[str] = "nightlies"

    find_links: Url | None = Field(default=None, alias="find-links", description="A page of links to wheels.")
    index: Url | None = Field(default=None, description="A simple index that holds the wheels.")
    distribution: Text | None = Field(default=None, description="The wheels' name where it differs from the releases'.")
    tags: Tags = Field(default=(), description="Which tags mark a nightly's commit.", examples=["iree-{version}"])

    @model_validator(mode="after")
    def _one_page(self) -> Self:
        if (self.find_links is None) == (self.index is None):
            raise advice("nightlies come from one page: give either find-links (a page of links) or index.")
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


def _tag(version: str, patterns: Sequence[str], timeline: Timeline) -> Tag | None:
    """The tag of a version; None without one, or where two tags name different commits."""
    tags = tags_for(version, patterns, timeline.tag)
    return tags[0] if len({tag.sha for tag in tags}) == 1 else None


def _position(tag: Tag, timeline: Timeline) -> CommitPosition | None:
    """Where a tag's commit lies; None where it shares no history with the timeline."""
    try:
        return timeline.place(tag.sha)
    except BadInput:
        return None


class Releases:
    """Stable releases that were not yanked and have a tag in the repository."""

    name = "releases"

    def __init__(self, workspace: Workspace, distribution: str, tags: Sequence[str], index: Index | None = None) -> None:
        """`tags`: patterns such as `v{version}`."""
        self._workspace = workspace
        self._distribution = distribution
        self._tags = tuple(tags)
        self._index = index or Index(workspace)
        self._kind = f"{self.name}:{distribution}"

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """A release from a branch is placed where the branch left the timeline."""
        stable = (release for release in self._index.releases(self._distribution) if not (release.prerelease or release.yanked))
        tagged = ((release, tag) for release in stable if (tag := _tag(release.version, self._tags, timeline)))
        placed = ((release, _position(tag, timeline)) for release, tag in tagged)
        offers = [self._offer(release, position) for release, position in placed if position and position.index in indices]
        return sorted(offers, key=lambda offer: offer.position.index)

    def obtain(self, offer: Offer, package: str | None = None) -> Path:
        if package is not None:
            return install_companion(self._workspace, package, offer.item, self._index)
        for release in self._index.releases(self._distribution):
            if release.version == offer.item:
                folder = self._folder(release)
                if is_intact(folder):
                    return folder
                with self._workspace.costs.timing(self._kind):
                    return install(self._workspace, self._distribution, release, self._index)
        raise EnvironmentFailure(f"the package index has no {self._distribution} {offer.item} for this platform")

    def _folder(self, release: Release) -> Path:
        return folder_of(self._workspace.toolchains, self._distribution, release)

    def _offer(self, release: Release, position: CommitPosition) -> Offer:
        seconds = 0.0 if is_intact(self._folder(release)) else self._workspace.costs.seconds(self._kind, _RELEASE_SECONDS)
        revision = Revision(release.version, commit=position.sha, date=release.date)
        return Offer(self.name, revision, position, seconds, release.version)


class Nightlies:
    """Wheels on a page of links. Their commits are those of tags, or of the times in their versions."""

    name = "nightlies"

    def __init__(
        self, workspace: Workspace, distribution: str, address: str, tags: Sequence[str] = (), *, is_index: bool = False
    ) -> None:
        """`address`: of the page, or of an index with a page for each package; `tags`: patterns such as `iree-{version}`."""
        self._workspace = workspace
        self._distribution = distribution
        self._address = address
        self._is_index = is_index
        self._page = f"{address.rstrip('/')}/{distribution}/" if is_index else address
        self._tags = tuple(tags)
        self._beside: dict[str, Nightlies] = {}
        self._kind = f"{self.name}:{distribution}"
        self._listed: dict[str, ListedWheel] | None = None

    def listed(self) -> Mapping[str, ListedWheel]:
        """The wheels for this platform by version, oldest first. EnvironmentFailure when the page cannot be read and never
        was.
        """
        if self._listed is None:
            page = WheelPage(self._workspace, self._page, self._distribution)
            try:
                wheels = page.read()
            except EnvironmentFailure as error:
                wheels = page.stored()
                if not wheels:
                    raise EnvironmentFailure(f"{error}; releases need no list of nightlies") from error
                self._workspace.progress.note(f"{error}\nusing the list of nightlies from the last time")
            self._listed = {wheel.release.version: wheel for wheel in wheels}
        return self._listed

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """A nightly without a tag or time is placed by its day, which is not exact."""
        # Some nightlies have their commit's time in UTC in the version, such as 20240716052845. A merge queue makes several
        # commits in one second, of which it names none.
        times = [datetime.fromisoformat(commit.date).astimezone(UTC).strftime("%Y%m%d%H%M%S") for commit in timeline.commits]
        counts = Counter(times)
        stamps = {time: index for index, time in enumerate(times) if counts[time] == 1}
        placed = ((version, self._position(version, timeline, stamps)) for version in self.listed())
        offers = [
            self._offer(version, position, timeline) for version, position in placed if position and position.index in indices
        ]
        return sorted(offers, key=lambda offer: (offer.position.index, Version(offer.item)))

    def obtain(self, offer: Offer, package: str | None = None) -> Path:
        return self.obtain_version(offer.item, package)

    def obtain_version(self, version: str, package: str | None = None) -> Path:
        """The folder of a nightly, or of another package of its version. Errors as of `obtain`."""
        if package is not None:
            if package not in self._beside:
                self._beside[package] = Nightlies(self._workspace, package, self._address, is_index=self._is_index)
            return self._beside[package].obtain_version(version)
        wheel = self.listed().get(version)
        if wheel is None:
            raise Unobtainable(f"{self._page} lists no {self._distribution} {version} for this platform")
        release, name = wheel.release, f"{self._distribution} {version}"
        folder = folder_of(self._workspace.toolchains, self._distribution, release)

        def fill(root: Path, scratch: Path) -> Release:
            with self._workspace.costs.timing(self._kind):
                file = download(self._workspace, wheel.url, release, scratch, name)
                unpack(file, host_of(wheel.url), release, root, scratch, self._workspace)
            return release

        return fill_folder(self._workspace, folder.name, name, fill)

    def of_day(self, day: str) -> Revision:
        """The newest nightly of a day, `2025-06-04` or `20250604`, or of all days for `latest`.

        Raises:
            BadInput: `day` is no day.
            EnvironmentFailure: there is no nightly of that day, or the page cannot be read.
        """
        parts = _DAY.fullmatch(day)
        if parts is None and day != "latest":
            raise BadInput(f"'nightly:{day}' names no day: write nightly:2025-06-04 or nightly:latest")
        wanted = "-".join(parts.groups()) if parts else "9999"
        days = self._days()
        older = sorted((version for version, date in days.items() if date and date <= wanted), key=Version)
        chosen = [version for version in older if parts is None or days[version] == wanted]
        if not chosen:
            near = f"; the newest before it is of {days[older[-1]]}" if older else ""
            raise EnvironmentFailure(f"{self._page} has no nightly of {day}{near}")
        return Revision(chosen[-1], date=days[chosen[-1]])

    def revisions(self) -> tuple[Revision, ...]:
        """All nightlies, oldest first."""
        return tuple(Revision(version, date=day or None) for version, day in self._days().items())

    def _days(self) -> dict[str, str]:
        """The day of each nightly by version, empty where it is not known."""
        return {version: day_in(version) or wheel.release.date or "" for version, wheel in self.listed().items()}

    def _offer(self, version: str, position: CommitPosition, timeline: Timeline) -> Offer:
        release = self.listed()[version].release
        is_installed = is_intact(folder_of(self._workspace.toolchains, self._distribution, release))
        commit = timeline.commits[position.index]
        revision = Revision(
            version,
            commit=position.sha or None,
            date=day_in(version) or release.date or commit.date[:10],
            subject=commit.subject if position.exact else None,
        )
        seconds = 0.0 if is_installed else self._workspace.costs.seconds(self._kind, _NIGHTLY_SECONDS)
        return Offer(self.name, revision, position, seconds, version)

    def _position(self, version: str, timeline: Timeline, stamps: Mapping[str, int]) -> CommitPosition | None:
        if tag := _tag(version, self._tags, timeline):
            return _position(tag, timeline)
        if (stamp := _STAMP.search(version)) and (index := stamps.get(stamp.group(1))) is not None:
            return CommitPosition(index, timeline.commits[index].sha)
        day = day_in(version)
        if day is None:
            return None
        try:  # a nightly is built from the newest commit at the beginning of its day, or from an older one
            return CommitPosition(timeline.newest_at(f"{day}T00:00:00+00:00"), "", exact=False)
        except BadInput:
            return None
