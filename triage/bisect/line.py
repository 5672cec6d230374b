"""A span of commits as places to probe: what each costs, and how its compiler is brought here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from triage.bisect.belief import Floats
from triage.model.commit import Commit
from triage.model.errors import EnvironmentFailure
from triage.model.revision import Revision
from triage.timeline import Span, Timeline
from triage.toolchains.shed import Place
from triage.toolchains.sources import Offer, Source, Unobtainable

_NAME = 10  # digits of a sha that name a commit


@dataclass(frozen=True, slots=True)
class Spot:
    """One commit of the span. `offers`: what can be had for it, cheapest first; `untestable`: why there is nothing."""

    commit: Commit
    offers: tuple[Offer, ...] = ()
    untestable: str | None = None

    @property
    def seconds(self) -> float:
        """How long obtaining a compiler may take; infinite where there is none."""
        return self.offers[0].seconds if self.offers else math.inf


@dataclass(frozen=True, slots=True)
class CommitLine:
    """Spots 0 .. N-1, oldest first: 0 is the good end, N-1 the bad one. `first` is the timeline's index of spot 0."""

    timeline: Timeline
    family: str
    first: int
    spots: tuple[Spot, ...]
    sources: Mapping[str, Source]

    def place(self, index: int) -> Place:
        """What is asked for a toolchain of a spot."""
        spot = self.spots[index]
        return Place(self.family, revision_of(spot.commit), bring=partial(self._bring, spot))

    @property
    def closed(self) -> frozenset[int]:
        """Spots that are known beforehand to have no compiler."""
        return frozenset(index for index, spot in enumerate(self.spots) if not spot.offers)

    @property
    def prices(self) -> Floats:
        """Shape (N,): seconds to obtain a compiler, infinite where there is none."""
        return np.array([spot.seconds for spot in self.spots])

    def _bring(self, spot: Spot) -> Path:
        """The cheapest offer that holds what it promises. Unobtainable when none does, with each one's reason."""
        reasons: list[str] = []
        for offer in spot.offers:
            try:
                return self.sources[offer.source].obtain(offer)
            except Unobtainable as error:
                reasons.append(f"{offer.source}: {error}")
        raise Unobtainable("; ".join(reasons) or spot.untestable or "nothing offers this commit")


def revision_of(commit: Commit) -> Revision:
    """A commit as a revision; its name is the short sha."""
    return Revision(commit.sha[:_NAME], commit.sha, commit.date[:10], commit.subject)


def commit_line(timeline: Timeline, span: Span, family: str, sources: Iterable[Source]) -> CommitLine:
    """Ask every source what it has for the span's commits, its good end included. A source that cannot be asked now is
    left out when another can; EnvironmentFailure when none can.
    """
    first, last = span.good.index, span.bad.index
    known = {source.name: source for source in sources}
    offers: list[Offer] = []
    failures: list[EnvironmentFailure] = []
    for source in known.values():
        try:
            offers += source.offers(timeline, range(first, last + 1))
        except EnvironmentFailure as error:
            failures.append(error)
    if failures and not offers:
        raise failures[0]
    return CommitLine(
        timeline=timeline,
        family=family,
        first=first,
        spots=tuple(_spot(timeline.commits[index], index, offers) for index in range(first, last + 1)),
        sources=known,
    )


def _spot(commit: Commit, index: int, offers: Sequence[Offer]) -> Spot:
    # An offer from a branch holds more than the commit it left the line at, so that it says nothing of that commit.
    here = [offer for offer in offers if offer.placement.index == index and offer.placement.exact]
    usable = sorted((offer for offer in here if offer.untestable is None), key=lambda offer: offer.seconds)
    why = next((offer.untestable for offer in here if offer.untestable), "no source offers a compiler of this commit")
    return Spot(commit, tuple(usable), None if usable else why)
