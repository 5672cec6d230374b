"""Ranges of candidates to probe: releases, or commits with the compilers that can be had for them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from triage.bisect.belief import Floats
from triage.bisect.prior import Clues, commit_prior, explain
from triage.bisect.result import Pin, Suspect, commit_revision
from triage.git_history import (
    Branch,
    CommitPosition,
    CommitRange,
    Fork,
    Links,
    Timeline,
    place_of,
    pull_request,
    read_branches,
    same_change,
)
from triage.git_history.refs import links_of, read_moves
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.outcome import Untestable
from triage.model.revision import Commit, Revision
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry
from triage.toolchains.sources.base import Offer, Source

_SHORT_SHA = 10  # digits of a sha that name a commit
_NO_OFFER = "no source has a compiler of this commit (--build builds it from source)"
_DOWNLOAD_SECONDS = 10.0  # for a release that is not installed


class BisectRange(ABC):
    """Candidates 0 .. N-1, oldest first: 0 is the old end, N-1 the new end.

    Unless a subclass knows better, each candidate compiles the same case, costs nothing to obtain and is equally suspicious.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def ref(self, index: int) -> ToolchainRef:
        """The toolchain of a candidate, not yet obtained."""

    @abstractmethod
    def revision(self, index: int) -> Revision:
        """The revision that names a candidate."""

    def shas(self, index: int) -> tuple[str, ...]:
        """The commits that a candidate stands for."""
        commit = self.revision(index).commit
        return (commit,) if commit else ()

    def suspect(self, index: int) -> Revision:
        """What may have brought the change if it is between the candidates `index - 1` and `index`."""
        return self.revision(index)

    def is_undone(self, index: int) -> bool:  # noqa: ARG002 - subclasses use it
        """Whether the candidate lacks that suspect and the one before it has it, not the other way round."""
        return False

    def branches(self) -> tuple[Branch, ...]:
        """The branches that the ends lie on, where they are not on the main line."""
        return ()

    def original(self, index: int) -> int | None:  # noqa: ARG002 - subclasses use it
        """The candidate whose suspect is the same change as the undone suspect of this one; None where there is none."""
        return None

    def starting_at(self, index: int) -> BisectRange:
        """The candidates from one on whose suspect is not undone."""
        raise NotImplementedError

    def case(self, index: int, case: Case) -> Case | Untestable:  # noqa: ARG002 - subclasses use it
        """The case to compile at a candidate; `case` is the one of the bisect."""
        return case

    def closed(self) -> Mapping[int, str]:
        """Candidates that are known to have no compiler, each with the reason."""
        return {}

    def seconds(self) -> Floats:
        """Seconds to obtain each compiler, shape (N,), infinite where there is none."""
        return np.zeros(len(self))

    def left_out(self) -> Sequence[tuple[Revision, str]]:
        """Compilers near candidates that stand for none of them, each with the reason."""
        return ()

    def obtained(self) -> Mapping[str, int]:
        """How many compilers were downloaded or built since the range was made, by the name of their source."""
        return {}

    def weights(self, clues: Clues) -> Floats:  # noqa: ARG002 - subclasses use it
        """How suspicious each candidate is before any probe, shape (N,); the first one is ignored."""
        return np.ones(len(self))

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, Suspect]:  # noqa: ARG002 - subclasses use it
        """Details of suspected commits, by sha."""
        return {}


@dataclass(frozen=True, slots=True)
class ReleaseCandidates(BisectRange):
    """Releases of the package index, oldest first."""

    refs: tuple[ToolchainRef, ...]
    registry: ToolchainRegistry

    def __len__(self) -> int:
        return len(self.refs)

    def ref(self, index: int) -> ToolchainRef:
        return self.refs[index]

    def revision(self, index: int) -> Revision:
        return self.registry.revision(self.refs[index])

    def seconds(self) -> Floats:
        return np.array([0.0 if self.registry.is_installed(ref) else _DOWNLOAD_SECONDS for ref in self.refs])


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit. `offers`: the compilers that can be had for it, cheapest first; `untestable`: why there is none.

    others: the commits after it that cannot change what the compiler does; their compilers stand for that of this one.
    branched: compilers of branches that left the line here.
    """

    commit: Commit
    offers: tuple[Offer, ...] = ()
    untestable: str | None = None
    others: tuple[str, ...] = ()
    branched: tuple[Offer, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchCost:
    """About what a search over commits takes, without the compiles of the case. seconds: for all builds and downloads."""

    commits: int
    builds: int
    downloads: int
    seconds: float

    @property
    def text(self) -> str:
        """The same as a phrase."""
        parts = [(self.commits, "commit"), (self.builds, "build"), (self.downloads, "download")]
        commits, builds, downloads = (f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in parts)
        hours = f"{self.seconds / 3600:.0f} h" if self.seconds >= 5400 else f"{math.ceil(self.seconds / 60)} min"
        steps = " and ".join(text for text, count in ((builds, self.builds), (downloads, self.downloads)) if count)
        return f"{commits}, about {steps}, about {hours}" if steps else f"{commits}, all compilers are here"


@dataclass(frozen=True, slots=True)
class CommitCandidates(BisectRange):
    """The commits of a span with its old end.

    An old end on a branch that the new end does not contain is reached over the commits of that branch: first come those, the
    newest first, then the commit where it leaves the timeline and the commits after that. Each candidate thus differs from
    the one before by one commit, which it has in addition or, on that branch, lacks.

    ends: toolchains of the two ends where they are not named by their commits.
    project: whose tables the prior uses. pin: path of a submodule whose moves are noted. web: see `links_of`. undone: how many
    candidates are on that branch; branch: the history that ends in the old end. reported: the commit that the compiler in a
    folder reports.
    """

    timeline: Timeline
    family: str
    candidates: tuple[Candidate, ...]
    sources: Mapping[str, Source]
    ends: tuple[ToolchainRef | None, ToolchainRef | None] = (None, None)
    project: str | None = None
    pin: str | None = None
    web: str | None = None
    undone: int = 0
    branch: Timeline | None = None
    reported: Callable[[Path], str | None] = lambda _: None
    _brought: list[str] = field(default_factory=list)  # sources that compilers came from
    _branches: list[tuple[Branch, ...]] = field(default_factory=list)  # one element, once they were read

    def __len__(self) -> int:
        return len(self.candidates)

    def ref(self, index: int) -> ToolchainRef:
        candidate = self.candidates[index]
        obtain = partial(self._obtain, candidate, [])
        return self._end(index) or ToolchainRef(self.family, commit_revision(candidate.commit), bring=obtain)

    def revision(self, index: int) -> Revision:
        commit = commit_revision(self.candidates[index].commit)
        end = self._end(index)
        return replace(commit, name=end.revision.name) if end else commit

    def shas(self, index: int) -> tuple[str, ...]:
        return (self.candidates[index].commit.sha, *self.candidates[index].others)

    def suspect(self, index: int) -> Revision:
        return commit_revision(self.candidates[index - 1].commit) if self.is_undone(index) else self.revision(index)

    def is_undone(self, index: int) -> bool:
        return 0 < index <= self.undone

    def branches(self) -> tuple[Branch, ...]:
        if not self._branches:
            ends = [(self.revision(index).name, self.shas(index)[-1]) for index in (0, len(self) - 1)]
            self._branches.append(read_branches(self.timeline, ends))
        return self._branches[0]

    def original(self, index: int) -> int | None:
        branches = self.branches()
        change = same_change(self.suspect(index).commit or "", branches)
        later = range(len(self) - 1, self.undone, -1) if self.is_undone(index) else range(0)
        return next((i for i in later if any(change & same_change(sha, branches) for sha in self.shas(i))), None)

    def starting_at(self, index: int) -> CommitCandidates:
        return replace(self, candidates=self.candidates[index:], ends=(None, self.ends[1]), undone=0, branch=None)

    def _place(self, index: int) -> str | None:
        """How the suspect of a candidate stands to the branches of the ends."""
        old, new = (self.revision(end).name for end in (0, len(self) - 1))
        text = place_of(self.suspect(index).commit or "", self.branches())
        if not self.is_undone(index):
            return text
        kept = self.original(index)
        has = "lacks it" if kept is None else f"has {self.candidates[kept].commit.sha[:_SHORT_SHA]}"
        return "; ".join(filter(None, [text, f"{old} has it, {new} {has}"]))

    def closed(self) -> Mapping[int, str]:
        return {
            index: candidate.untestable or _NO_OFFER
            for index, candidate in enumerate(self.candidates)
            if not candidate.offers and self._end(index) is None
        }

    def left_out(self) -> Sequence[tuple[Revision, str]]:
        searched = {sha for index in range(len(self)) for sha in self.shas(index)}
        offers = (offer for candidate in self.candidates for offer in candidate.branched)
        return [
            (offer.revision, f"{commit[:_SHORT_SHA]} is on a branch that is not searched")
            for offer in offers
            if (commit := offer.revision.commit) and commit not in searched
        ]

    def seconds(self) -> Floats:
        return np.array([candidate.offers[0].seconds if candidate.offers else math.inf for candidate in self.candidates])

    def cost(self) -> SearchCost:
        """About what a search takes: first the compilers that are downloaded, then the commits between two of them."""
        cheapest = [candidate.offers[0] for candidate in self.candidates[1:-1] if candidate.offers]
        ready = [offer for offer in cheapest if not offer.seconds]
        downloads = [offer.seconds for offer in cheapest if offer.seconds and not _is_made(offer)]
        builds = [offer.seconds for offer in cheapest if offer.seconds and _is_made(offer)]
        left = len(builds) / (len(ready) + len(downloads) + 1)
        counts = [math.ceil(math.log2(1 + many)) for many in (left, len(downloads) / (len(ready) + 1))]
        seconds = sum(count * max(costs) for count, costs in zip(counts, (builds, downloads), strict=True) if costs)
        return SearchCost(len(self.candidates) - 1, counts[0], counts[1], seconds)

    def obtained(self) -> Mapping[str, int]:
        return Counter(self._brought)

    def weights(self, clues: Clues) -> Floats:
        return np.concatenate([[1.0], commit_prior(self._commits(), clues, self.project)])

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, Suspect]:
        commits = self._commits()
        reasons = explain(commits, clues, self.project)
        links = self.timeline.links or links_of(self.web)
        indices = [index for index in indices if index > 0]
        shas = [commits[index - 1].sha for index in indices]
        moves = read_moves(self.timeline.repository, shas, self.pin) if self.pin else {}
        notes: dict[str, Suspect] = {}
        for index in indices:
            commit = commits[index - 1]
            move = moves.get(commit.sha)
            notes[commit.sha] = replace(
                commit_note(commit, links),
                pin_moved=Pin(move.path, move.before or "", move.after or "") if move else None,
                reasons=tuple(text for text, bits in reasons[index - 1] if bits > 0)[:5],
                branch=self._place(index),
            )
        return notes

    def _commits(self) -> tuple[Commit, ...]:
        """The suspects, in the order of the candidates."""
        added = self.timeline.with_files(
            self.timeline.place(each.commit.sha).index for each in self.candidates[self.undone + 1 :]
        )
        if self.branch is None:
            return added
        undone = (self.branch.place(each.commit.sha).index for each in self.candidates[: self.undone])
        return (*self.branch.with_files(undone), *added)

    def _end(self, index: int) -> ToolchainRef | None:
        return self.ends[0] if index == 0 else self.ends[1] if index == len(self.candidates) - 1 else None

    def _obtain(self, candidate: Candidate, used: list[Offer], package: str | None = None) -> Path:
        """Obtain the cheapest offer that works, and add it to `used`; or a package of the offer that was used.

        Raises:
            Unobtainable: None works; with the reason of each.
        """
        reasons: list[str] = []
        for offer in used[-1:] if package else candidate.offers:
            try:
                root = self.sources[offer.source].obtain(offer, package)
                if not package:
                    self._check(candidate, offer, root)
            except Unobtainable as error:
                reasons.append(f"{offer.source}: {error}")
            else:
                used.append(offer)
                if offer.seconds and package is None:
                    self._brought.append(offer.source)
                return root
        raise Unobtainable("; ".join(reasons) or candidate.untestable or _NO_OFFER)

    def _check(self, candidate: Candidate, offer: Offer, root: Path) -> None:
        """Raise Unobtainable where a published compiler reports another commit: its tag was moved, or it names the wrong one.

        A compiler that is built on request may report the commit at which its build folder was configured.
        """
        reported = None if _is_made(offer) else self.reported(root)
        if reported and not any(sha.startswith(reported) for sha in (candidate.commit.sha, *candidate.others)):
            name, expected = offer.revision.name[:40], candidate.commit.sha[:_SHORT_SHA]
            raise Unobtainable(f"{name} reports that it was built from {reported[:_SHORT_SHA]}, not from {expected}")


def commit_note(commit: Commit, links: Links | None) -> Suspect:
    """The details of a commit that has its files. links: pages of its repository."""
    number = pull_request(commit.subject)
    return Suspect(
        **asdict(commit_revision(commit)),
        pull_request=number,
        url=(links.pull(number) if number else links.commit(commit.sha)) if links else None,
        files=tuple(changed.path for changed in commit.files),
    )


def candidates_from(
    fork: Fork, bad: CommitPosition, sources: Sequence[Source], changes: Callable[[str], bool]
) -> tuple[int, tuple[Candidate, ...]]:
    """The candidates from a commit to another one on the timeline, and how many are on the branch of the first one.

    See `CommitCandidates`; arguments and errors as of `commit_candidates`.
    """
    start = CommitPosition(fork.index, fork.base.commits[fork.index].sha)
    added = commit_candidates(fork.base, CommitRange(start, bad), sources, changes)
    if not fork.own:
        return 0, added
    first, last = (CommitPosition(index, fork.line.commits[index].sha) for index in (fork.own[0], fork.own[-1]))
    undone = commit_candidates(fork.line, CommitRange(first, last), sources, changes)
    return len(undone), (*reversed(undone), *added)


def commit_candidates(
    timeline: Timeline, span: CommitRange, sources: Iterable[Source], changes: Callable[[str], bool] = lambda _: True
) -> tuple[Candidate, ...]:
    """Ask every source for compilers of the span's commits, its old end included.

    A source that fails is left out when another one answers. changes: whether a file can change what the compiler does.
    Commits without such a file are no candidates, unless there are no others.

    Raises:
        EnvironmentFailure: Every source failed.
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
    commits = timeline.with_files(range(first + 1, last + 1))
    roots = [
        first,
        *(
            first + 1 + n
            for n, commit in enumerate(commits)
            if not commit.files or any(map(changes, (f.path for f in commit.files)))
        ),
    ]
    if len(roots) < 2:
        roots = list(range(first, last + 1))
    return tuple(_candidate(timeline.commits[start:end], start, offers) for start, end in pairwise([*roots, last + 1]))


def _is_made(offer: Offer) -> bool:
    """Whether a compiler is made on request: its item is its commit."""
    return offer.item == offer.revision.commit


def _candidate(commits: Sequence[Commit], start: int, offers: Sequence[Offer]) -> Candidate:
    # An offer from a branch has more changes than the commit where the branch left the line, so it proves nothing about it.
    inside = range(start, start + len(commits))
    near = [offer for offer in offers if offer.position.index in inside]
    exact = [offer for offer in near if offer.position.exact]
    # A compiler that is made on request is made for the first commit only.
    exact = [offer for offer in exact if offer.position.index == start or not offer.seconds or not _is_made(offer)]
    usable = [offer for offer in exact if offer.untestable is None]
    usable.sort(key=lambda offer: (offer.seconds, offer.position.index))
    why = next((offer.untestable for offer in exact if offer.untestable), _NO_OFFER)
    others, branched = tuple(commit.sha for commit in commits[1:]), tuple(offer for offer in near if not offer.position.exact)
    return Candidate(commits[0], tuple(usable), None if usable else why, others, branched)
