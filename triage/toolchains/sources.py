"""Sources of toolchains: they have builds for commits. Published wheels are two of
them, the releases of the package index and the nightlies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Protocol

from triage.git_history.repository import tags_for
from triage.git_history.timeline import CommitPosition, Timeline
from triage.model.content import Address
from triage.model.errors import Unobtainable
from triage.model.fields import REQUIRED, file_key, fits
from triage.model.revision import Revision
from triage.recipes.document import OneOrMore, Text
from triage.toolchains.index import Release, index_url
from triage.toolchains.install import Package, is_intact

_SECONDS = 15.0  # of a download and an install


@dataclass(frozen=True, slots=True)
class Build:
    """A toolchain that a source can provide. It is plain data, so that another machine
    can obtain it.
    """

    source: str
    """The name of the source."""
    revision: Revision
    """Its `commit` is None if only the installed compiler knows it."""
    position: CommitPosition
    """The position of its commit on the timeline, perhaps not exact."""
    seconds: float
    """The estimated time to obtain it; 0 if it is installed."""
    item: str
    """What the source calls it: a version, a sha or an id."""


class Source(Protocol):
    """One way to obtain compilers. Several threads may use it at once."""

    @property
    def name(self) -> str: ...

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return the builds of the commits with these indices, the oldest first. A
        commit may have several. Raises EnvironmentFailure if they cannot be listed.
        """

    def obtain(self, build: Build, package: str | None = None) -> Path:
        """Return the folder of a build's toolchain, or of a package that was published
        with it. Install it if it is missing. A source that has no packages returns the
        toolchain's folder.

        Raises:
            Unobtainable: There is no such toolchain or package.
            EnvironmentFailure: It cannot be obtained now.
        """


Url = Annotated[
    Text,
    fits(
        "https?://.+",
        "this is not an address: write one that begins with https://.",
    ),
]
Tag = Annotated[
    Text,
    fits(
        r"[^{}]*\{version\}[^{}]*",
        'this is not a pattern for tags: write {version} once, such as "v{version}".',
    ),
]
Tags = Annotated[tuple[Tag, ...], OneOrMore]


def can_change(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a file can change what the compiler does, by the patterns that a
    project has under `paths`.

    >>> can_change("docs/a.md", ["!docs"]), can_change("src/a.c", ["src", "!*.md"])
    (False, True)
    """
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    fits = not wanted or fits_any(path, wanted)
    return fits and not fits_any(path, unwanted)


def fits_any(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path fits a shell pattern, or is in a folder that does."""
    return any(
        fnmatchcase(path, pattern) or path.startswith(f"{pattern.rstrip('/')}/")
        for pattern in patterns
    )


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
