"""Places to probe, oldest first: releases, or the commits of a span; what each costs and how its compiler is brought."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from triage.bisect.belief import Floats
from triage.bisect.prior import commit_prior, explain
from triage.bisect.prior_clues import Clues
from triage.bisect.result import CommitNote
from triage.git_history import CommitRange, Links, Timeline, pull_request
from triage.git_history.refs import links_of
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Untestable
from triage.model.revision import Commit, Revision
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry
from triage.toolchains.sources import Offer, Source, Unobtainable

_NAME = 10  # digits of a sha that name a commit
_DOWNLOAD = 10.0  # seconds for a release that is not installed


class CandidateLine(Protocol):
    """Spots 0 .. N-1: 0 is the good end, N-1 the bad one."""

    def __len__(self) -> int: ...

    def place(self, index: int) -> ToolchainRef:
        """What is asked for a toolchain of a spot."""

    def case(self, index: int, case: Case) -> Case | Untestable:
        """What is compiled at a spot: `case` itself, unless the line is one of cases."""

    def revision(self, index: int) -> Revision:
        """How a spot is named."""

    def closed(self) -> Mapping[int, str]:
        """Spots that are known beforehand to have no compiler, and why."""

    def prices(self) -> Floats:
        """Shape (N,): seconds to obtain a compiler, infinite where there is none."""

    def weights(self, clues: Clues) -> Floats:
        """Shape (N,): how suspicious each spot is before anything was probed; the first counts for nothing."""

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, CommitNote]:
        """What a person wants to know of suspected spots, by sha."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One commit of a span. `offers`: what can be had for it, cheapest first; `untestable`: why there is nothing."""

    commit: Commit
    offers: tuple[Offer, ...] = ()
    untestable: str | None = None


@dataclass(frozen=True, slots=True)
class CommitLine:
    """The commits of a span with its good end. `first`: the timeline's index of spot 0; `ends`: places of the two ends
    where they are named otherwise than by the commit; `pin`: a submodule whose moves are told; `web`: see `links_of`.
    """

    timeline: Timeline
    family: str
    first: int
    spots: tuple[Candidate, ...]
    sources: Mapping[str, Source]
    ends: tuple[ToolchainRef | None, ToolchainRef | None] = (None, None)
    project: str | None = None
    pin: str | None = None
    web: str | None = None

    def __len__(self) -> int:
        return len(self.spots)

    def place(self, index: int) -> ToolchainRef:
        spot = self.spots[index]
        return self._end(index) or ToolchainRef(self.family, revision_of(spot.commit), bring=partial(self._bring, spot))

    def case(self, index: int, case: Case) -> Case:  # noqa: ARG002 - the port's name
        return case

    def revision(self, index: int) -> Revision:
        commit = revision_of(self.spots[index].commit)
        end = self._end(index)
        return Revision(end.revision.name, commit.commit, commit.date, commit.subject) if end else commit

    def closed(self) -> Mapping[int, str]:
        return {
            index: spot.untestable or "nothing offers this commit"
            for index, spot in enumerate(self.spots)
            if not spot.offers and self._end(index) is None
        }

    def prices(self) -> Floats:
        return np.array([spot.offers[0].seconds if spot.offers else math.inf for spot in self.spots])

    def weights(self, clues: Clues) -> Floats:
        return np.concatenate([[1.0], commit_prior(self._commits(), clues, self.project)])

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, CommitNote]:
        commits = self._commits()
        reasons = explain(commits, clues, self.project)
        links = self.timeline.links or links_of(self.web)
        moves = self.timeline.pin_moves([self.first + index for index in indices], self.pin) if self.pin else {}
        found: dict[str, CommitNote] = {}
        for index in (index for index in indices if index > 0):
            commit, move = commits[index - 1], moves.get(self.first + index)
            found[commit.sha] = replace(
                note_of(commit, links),
                pinned=(move.path, move.before or "", move.after or "") if move else None,
                reasons=tuple(reason.text for reason in reasons[index - 1] if reason.bits > 0)[:5],
            )
        return found

    def _commits(self) -> tuple[Commit, ...]:
        return self.timeline.with_files(range(self.first + 1, self.first + len(self.spots)))

    def _end(self, index: int) -> ToolchainRef | None:
        return self.ends[0] if index == 0 else self.ends[1] if index == len(self.spots) - 1 else None

    def _bring(self, spot: Candidate) -> Path:
        """The cheapest offer that holds what it promises. Unobtainable when none does, with each one's reason."""
        reasons: list[str] = []
        for offer in spot.offers:
            try:
                return self.sources[offer.source].obtain(offer)
            except Unobtainable as error:
                reasons.append(f"{offer.source}: {error}")
        raise Unobtainable("; ".join(reasons) or spot.untestable or "nothing offers this commit")


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """Releases of the index, from the good end to the bad one."""

    places: tuple[ToolchainRef, ...]
    shed: ToolchainRegistry

    def __len__(self) -> int:
        return len(self.places)

    def place(self, index: int) -> ToolchainRef:
        return self.places[index]

    def case(self, index: int, case: Case) -> Case:  # noqa: ARG002 - the port's name
        return case

    def revision(self, index: int) -> Revision:
        return self.shed.revision(self.places[index])

    def closed(self) -> Mapping[int, str]:
        return {}

    def prices(self) -> Floats:
        return np.array([0.0 if self.shed.is_installed(place) else _DOWNLOAD for place in self.places])

    def weights(self, clues: Clues) -> Floats:  # noqa: ARG002 - the port's name
        return np.ones(len(self.places))

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, CommitNote]:  # noqa: ARG002
        return {}


def revision_of(commit: Commit) -> Revision:
    """A commit as a revision; its name is the short sha."""
    return Revision(commit.sha[:_NAME], commit.sha, commit.date[:10], commit.subject)


def note_of(commit: Commit, links: Links | None) -> CommitNote:
    """What a commit tells of itself; it comes with its files. links: pages of its repository."""
    number = pull_request(commit.subject)
    return CommitNote(
        sha=commit.sha,
        subject=commit.subject,
        date=commit.date,
        pull_request=number,
        url=(links.pull(number) if number else links.commit(commit.sha)) if links else None,
        files=tuple(changed.path for changed in commit.files),
    )


def spots_of(timeline: Timeline, span: CommitRange, sources: Iterable[Source]) -> tuple[Candidate, ...]:
    """Ask every source what it has for the span's commits, its good end included. A source that cannot be asked now is
    left out when another can; EnvironmentFailure when none can.
    """
    first, last = span.good.index, span.bad.index
    offers: list[Offer] = []
    failures: list[EnvironmentFailure] = []
    for source in sources:
        try:
            offers += source.offers(timeline, range(first, last + 1))
        except EnvironmentFailure as error:
            failures.append(error)
    if failures and not offers:
        raise failures[0]
    return tuple(_spot(timeline.commits[index], index, offers) for index in range(first, last + 1))


def _spot(commit: Commit, index: int, offers: Sequence[Offer]) -> Candidate:
    # An offer from a branch holds more than the commit it left the line at, so that it says nothing of that commit.
    here = [offer for offer in offers if offer.placement.index == index and offer.placement.exact]
    usable = sorted((offer for offer in here if offer.untestable is None), key=lambda offer: offer.seconds)
    why = next((offer.untestable for offer in here if offer.untestable), "no source offers a compiler of this commit")
    return Candidate(commit, tuple(usable), None if usable else why)
