"""Nightly wheels, listed on a page of links or in a simple index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from packaging.version import Version

from triage.git_history import CommitPosition, Timeline
from triage.git_history.refs import day_in
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import Revision
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.index import Release, choose_wheels
from triage.toolchains.install import folder_of, is_whole, kept
from triage.toolchains.sources.base import Offer, Prices, Workplace
from triage.toolchains.sources.http import Web
from triage.toolchains.sources.wheel_file import belongs, unpack

_DEFAULT_SECONDS = 15.0
_STAMP = re.compile(r"(?<!\d)(20\d{12})(?!\d)")


@dataclass(frozen=True, slots=True)
class Listed:
    """A wheel on the page, and where it is fetched."""

    release: Release
    url: str


class Nightlies:
    """Wheels whose commits are told by tags of the repository, or by the time in their versions.

    `page` is a page of links (`simple` False), or a simple index's root. `tags`: patterns such as `iree-{version}`.
    """

    def __init__(
        self,
        place: Workplace,
        prices: Prices,
        distribution: str,
        page: str,
        tags: Sequence[str] = (),
        *,
        simple: bool = False,
        name: str = "nightlies",
    ) -> None:
        self.name = name
        self._place = place
        self._prices = prices
        self._distribution = distribution
        self._page = page.rstrip("/") + f"/{distribution}/" if simple else page
        self._tags = tuple(tags)
        self._kind = f"{name}:{distribution}"
        self._asked: dict[str, Listed] | None = None

    def listed(self) -> Mapping[str, Listed]:
        """The wheels for this platform by version, oldest first. EnvironmentFailure when the page was never seen and
        cannot be had now.
        """
        if self._asked is None:
            self._asked = self._ask()
        return self._asked

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """Those whose commit lies in the range. One without a tag or time is placed by its day, which is not exact."""
        stamps = _stamps(timeline)
        placed = ((version, self._placed(version, timeline, stamps)) for version in self.listed())
        found = [
            self._offer(version, placement, timeline)
            for version, placement in placed
            if placement and placement.index in indices
        ]
        return sorted(found, key=lambda offer: (offer.placement.index, Version(offer.item)))

    def obtain(self, offer: Offer) -> Path:
        """See the port."""
        return self.bring(offer.item)

    def bring(self, version: str) -> Path:
        """The folder of a nightly. BadInput when it is not listed; otherwise the errors of `obtain`."""
        listed = self.listed().get(version)
        if listed is None:
            raise BadInput(f"{self._page} lists no {self._distribution} {version} for this platform")
        release, what = listed.release, f"{self._distribution} {version}"

        def fill(root: Path, scratch: Path) -> Release:
            wheel = scratch / release.wheel
            Web(self._place).download(listed.url, wheel, what, release.sha256)
            unpack(wheel, release, root, scratch, self._place)
            return release

        folder = self._folder(release)
        if is_whole(folder):
            return folder
        with self._prices.timing(self._kind):
            return kept(self._place.toolchains, folder.name, what, self._place.progress, fill)

    def _folder(self, release: Release) -> Path:
        return folder_of(self._place.toolchains, self._distribution, release)

    def _offer(self, version: str, placement: CommitPosition, timeline: Timeline) -> Offer:
        release = self.listed()[version].release
        here = is_whole(self._folder(release))
        commit = timeline.commits[placement.index]
        revision = Revision(
            version,
            commit=placement.sha or None,
            date=day_in(version) or release.date or commit.date[:10],
            subject=commit.subject if placement.exact else None,
        )
        seconds = 0.0 if here else self._prices.seconds(self._kind, _DEFAULT_SECONDS)
        return Offer(self.name, revision, placement, seconds, version)

    def _placed(self, version: str, timeline: Timeline, stamps: Mapping[str, int]) -> CommitPosition | None:
        for pattern in self._tags:
            tag = timeline.tag(pattern.format(version=version))
            if tag is not None:
                try:
                    return timeline.place(tag.sha)
                except BadInput:  # of another line altogether
                    return None
        if (found := _STAMP.search(version)) and (index := stamps.get(found.group(1))) is not None:
            return CommitPosition(index, timeline.commits[index].sha)
        day = day_in(version)
        if day is None:
            return None
        try:  # a nightly of a day is built from what was there when the day began, or from something older
            return CommitPosition(timeline.newest_at(f"{day}T00:00:00+00:00"), "", exact=False)
        except BadInput:
            return None

    def _ask(self) -> dict[str, Listed]:
        try:
            found = self._fetch()
        except EnvironmentFailure as error:
            remembered = self._recall()
            if remembered is None:
                raise
            self._place.progress.note(f"{error}\nthe page as it was seen last is used")
            return remembered
        with disk_errors("keep the list of nightlies"):
            self._remember(found.values())
        return found

    def _fetch(self) -> dict[str, Listed]:
        from pypi_simple import ACCEPT_ANY, ProjectPage, UnsupportedContentTypeError

        answer = Web(self._place).get(self._page, accept=ACCEPT_ANY)
        if answer.status_code != 200:
            raise EnvironmentFailure(f"cannot read the nightlies' page {self._page}: {answer.status_code} {answer.reason}")
        try:
            packages = ProjectPage.from_response(answer, self._distribution).packages
        except (UnsupportedContentTypeError, ValueError) as error:
            raise EnvironmentFailure(f"{self._page} is no page of links: {error}") from error
        ours = [package for package in packages if belongs(package.project, self._distribution)]
        urls = {package.filename: package.url for package in ours}
        return {release.version: Listed(release, urls[release.wheel]) for release in choose_wheels(ours)}

    def _note(self) -> Path:
        mark = blake2b(f"{self._page}\0{self._distribution}".encode(), digest_size=8).hexdigest()
        return self._place.home / "index" / f"nightlies-{mark}.json"

    def _remember(self, found: Iterable[Listed]) -> None:
        note = self._note()
        write_whole(note, json.dumps([{"release": asdict(one.release), "url": one.url} for one in found]))

    def _recall(self) -> dict[str, Listed] | None:
        try:
            kept_ones = [Listed(Release(**one["release"]), one["url"]) for one in json.loads(self._note().read_text())]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return {one.release.version: one for one in kept_ones}


def _stamps(timeline: Timeline) -> dict[str, int]:
    """Index by the time of commit in UTC, as versions of some nightlies hold it: 20240716052845."""
    return {
        datetime.fromisoformat(commit.date).astimezone(UTC).strftime("%Y%m%d%H%M%S"): index
        for index, commit in enumerate(timeline.commits)
    }
