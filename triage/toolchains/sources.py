"""Sources of toolchains: each lists its builds of commits. Published wheels are two of
them, the releases of the package index and the nightlies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from triage.git_history.repository import tagged_commits
from triage.git_history.timeline import Timeline
from triage.model.content import Address
from triage.model.fields import REQUIRED, file_key, fits
from triage.model.revision import Revision
from triage.recipes.document import OneOrMore, Text
from triage.toolchains.index import Release, index_url
from triage.toolchains.install import Package, is_intact

_SECONDS = 15.0  # of a download and an install


@dataclass(frozen=True, slots=True)
class Build:
    """A toolchain of a commit that a source can provide."""

    source: str
    """The name of the source."""
    revision: Revision
    index: int
    """The index of its commit on the timeline."""
    seconds: float
    """The estimated time to obtain it; 0 if it is installed."""
    obtain: Callable[[str | None], Path]
    """Returns the folder of the toolchain, or of the package of this name that was
    published with it. Installs it if it is missing.

    Raises:
        Unobtainable: There is no such toolchain or package.
        EnvironmentFailure: It cannot be obtained now.
    """


Source = Callable[[Timeline, range], Sequence[Build]]
"""Lists the builds of the commits with these indices. A commit may have several. Raises
EnvironmentFailure if they cannot be listed.
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


def wheel_builds(
    package: Package, tags: Sequence[str], timeline: Timeline, indices: range
) -> list[Build]:
    """Return the releases or nightlies of a package whose commit is in the range, by
    their tags, such as `v{version}`.
    """
    by_sha = {timeline.commits[index].sha: index for index in indices}
    source = "nightlies" if package.nightly else "releases"
    builds = []
    for release in package.listed:
        shas = tagged_commits(release.version, tags, timeline.tags)
        is_meant = release.nightly or release.is_stable
        if is_meant and len(shas) == 1 and shas <= by_sha.keys():
            index = by_sha[shas.pop()]
            revision = timeline.commits[index].revision
            day = release.date or revision.date
            revision = replace(revision, name=release.version, date=day)
            is_installed = is_intact(package.folder(release))
            seconds = 0.0 if is_installed else _SECONDS
            obtain = partial(_obtain, package, release)
            builds.append(Build(source, revision, index, seconds, obtain))
    return builds


def _obtain(package: Package, release: Release, name: str | None) -> Path:
    """Return the folder of a release, or of the package `name` of the same version."""
    if name is not None:
        return package.companion(name, release.version)
    return package.install(release)
