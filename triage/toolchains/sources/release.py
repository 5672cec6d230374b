"""Releases of the package index, placed on a timeline by their tags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from triage.git_history import CommitPosition, Timeline
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import Revision
from triage.toolchains.index import Index, Release
from triage.toolchains.install import folder_of, install, is_whole
from triage.toolchains.sources.base import Offer, Prices, Workplace

_DEFAULT_SECONDS = 10.0


class Releases:
    """Stable releases that were not yanked. `tags`: patterns such as `v{version}`; a release without a tag is not offered."""

    name = "releases"

    def __init__(
        self, place: Workplace, prices: Prices, distribution: str, tags: Sequence[str], index: Index | None = None
    ) -> None:
        self._place = place
        self._prices = prices
        self._distribution = distribution
        self._tags = tuple(tags)
        self._index = index or Index(place.home / "index")
        self._kind = f"{self.name}:{distribution}"

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """See the port. A release from a branch is placed where the branch left the line."""
        known = (one for one in self._index.releases(self._distribution) if not one.prerelease and not one.yanked)
        placed = ((release, self._placed(release, timeline)) for release in known)
        return sorted(
            (self._offer(release, placement) for release, placement in placed if placement and placement.index in indices),
            key=lambda offer: offer.placement.index,
        )

    def obtain(self, offer: Offer) -> Path:
        """See the port."""
        for release in self._index.releases(self._distribution):
            if release.version == offer.item:
                place = self._place
                if is_whole(folder_of(place.toolchains, self._distribution, release)):
                    return folder_of(place.toolchains, self._distribution, release)
                with self._prices.timing(self._kind):
                    return install(place.toolchains, self._distribution, release, self._index.url, place.progress, place.stop)
        raise EnvironmentFailure(f"the package index has no {self._distribution} {offer.item} for this platform")

    def _placed(self, release: Release, timeline: Timeline) -> CommitPosition | None:
        for pattern in self._tags:
            tag = timeline.tag(pattern.format(version=release.version))
            if tag is not None:
                try:
                    return timeline.place(tag.sha)
                except BadInput:  # of another line altogether
                    return None
        return None

    def _offer(self, release: Release, placement: CommitPosition) -> Offer:
        here = is_whole(folder_of(self._place.toolchains, self._distribution, release))
        seconds = 0.0 if here else self._prices.seconds(self._kind, _DEFAULT_SECONDS)
        revision = Revision(release.version, commit=placement.sha, date=release.date)
        return Offer(self.name, revision, placement, seconds, release.version)
