"""Ranges of candidates to probe: releases, or commits with the compilers that can be
had for them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from triage.bisect.belief import Floats
from triage.bisect.prior import Clues, commit_prior, explain, table_of
from triage.bisect.result import Suspect
from triage.git_history.branches import Branch, place_of, read_branches, same_change
from triage.git_history.repository import Links, links_of, pin_moved, pull_request
from triage.git_history.timeline import Timeline
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.outcome import NoAnswer, Outcome, Probe
from triage.model.probe_result import ProbeResult
from triage.model.revision import Commit, Revision
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry
from triage.toolchains.sources.base import UNTIMED_BUILD, Build, Source
from triage.toolchains.sources.project import Project

_SHORT_SHA = 10  # digits of a sha that name a commit
_NO_COMPILER = "no source has a compiler of this commit (--build builds it from source)"
_DOWNLOAD_SECONDS = 10.0  # for a release that is not installed


@dataclass(slots=True)
class Candidate:
    """A revision that a search may probe, and what probes of it showed."""

    revision: Revision
    """Replaced by what its toolchain reports."""
    ref: ToolchainRef
    """Its toolchain, not yet obtained."""
    seconds: float = 0.0
    """The estimated time to obtain it."""
    untestable: str | None = None
    """Why it cannot be obtained, if that is known beforehand."""
    change: Suspect | None = None
    """What the candidate before it lacks, unless that is the revision."""
    is_undone: bool = False
    """The candidate before it has the change, and this one lacks it."""
    shas: tuple[str, ...] = ()
    """The commits that it stands for: its own, and those after it that cannot change
    what the compiler does.
    """
    case_of: Callable[[], Case | NoAnswer] | None = None
    """Reads the case to compile, if it is not that of the bisect."""
    probes: list[Probe] = field(default_factory=list)
    obtained_from: list[str] = field(default_factory=list)
    """The source of a commit's compiler; empty until that is obtained."""

    @property
    def source(self) -> str | None:
        """Where its compiler came from; None before a commit's is obtained."""
        if self.ref.is_release:
            return "releases"
        if self.ref.is_nightly:
            return "nightlies"
        if self.ref.path is not None:
            return "path"
        return next(iter(self.obtained_from), None)

    @property
    def seconds_again(self) -> float:
        """The time to probe it again, and to obtain it if it is not here."""
        probed = self.probes[-1].measured.seconds if self.probes else 0.0
        if self.source:
            return probed
        return self.seconds + probed

    @property
    def outcomes(self) -> list[Outcome]:
        return [probe.outcome for probe in self.probes]


@dataclass(frozen=True)
class BisectRange:
    """Candidates 0 .. N-1, oldest first: 0 is the old end, N-1 the new end."""

    candidates: tuple[Candidate, ...]
    left_out: tuple[ProbeResult, ...] = ()
    """Revisions that were never candidates, with the reason."""
    obtained: dict[Path, str] = field(default_factory=dict)
    """The folders of compilers that a search downloaded or built, with their sources.
    """

    @property
    def closed(self) -> list[int]:
        return [
            index
            for index, candidate in enumerate(self.candidates)
            if candidate.untestable is not None
        ]

    @property
    def is_of_commits(self) -> bool:
        return bool(self.candidates[0].shas)

    def change(self, index: int) -> Suspect:
        """Return what may have brought the change if it is between the candidate before
        this one and this one.
        """
        return self.candidates[index].change or Suspect.of(
            self.candidates[index].revision
        )

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The branches that the ends lie on, unless they are on the main line."""
        return ()

    def part(self, first: int, last: int) -> Self:
        return replace(self, candidates=self.candidates[first : last + 1])

    def weights(self, clues: Clues) -> Floats:  # noqa: ARG002 - commits use it
        """Return how suspicious each candidate is; the first one counts for nothing."""
        return np.ones(len(self.candidates))

    def details(self, indices: Sequence[int], clues: Clues) -> Mapping[int, Suspect]:  # noqa: ARG002 - commits use it
        """Return what more is known of the changes of some candidates."""
        return {}

    def original(self, index: int) -> int | None:  # noqa: ARG002 - commits use it
        """Return the last candidate that brings the change which this one undoes; None
        if none does, or this one undoes nothing.
        """
        return None


def release_range(
    registry: ToolchainRegistry, refs: Iterable[ToolchainRef]
) -> BisectRange:
    """Return a range of releases or other toolchains that the registry knows, oldest
    first.
    """
    return BisectRange(
        tuple(
            Candidate(
                registry.revision(ref),
                ref,
                0.0 if registry.is_installed(ref) else _DOWNLOAD_SECONDS,
            )
            for ref in refs
        )
    )


@dataclass(frozen=True, kw_only=True)
class CommitCandidates(BisectRange):
    """The commits of a span with its old end.

    An old end on a branch that the new end does not contain is reached over the commits
    of that branch: first come those, the newest first, then the commit where it leaves
    the timeline and the commits after that. Each candidate thus differs from the one
    before by one commit, which it has in addition or, on that branch, lacks.
    """

    timeline: Timeline
    project: Project
    commits: tuple[Commit, ...]
    """The change of each candidate, with its files; of the first one too, which is
    ignored.
    """
    most_builds: int
    """Compilers to download or build, at most."""
    cost: str
    """About what a search takes, without the compiles of the case."""

    def part(self, first: int, last: int) -> Self:
        return replace(
            super().part(first, last), commits=self.commits[first : last + 1]
        )

    def weights(self, clues: Clues) -> Floats:
        return np.concatenate(
            [[1.0], commit_prior(self.commits[1:], clues, table_of(self.project))]
        )

    def details(self, indices: Sequence[int], clues: Clues) -> Mapping[int, Suspect]:
        reasons = explain(self.commits[1:], clues, table_of(self.project))
        repository, pin = self.timeline.repository, self.project.llvm
        details = {}
        for index in indices:
            change = self.candidates[index].change
            assert change is not None
            details[index] = replace(
                change,
                pin_moved=pin_moved(repository, self.commits[index], pin or ""),
                reasons=reasons[index - 1],
                place=self._branch_text(index),
            )
        return details

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        ends = [
            (end.revision.name, end.shas[-1])
            for end in (self.candidates[0], self.candidates[-1])
        ]
        return read_branches(self.timeline.repository, ends)

    def original(self, index: int) -> int | None:
        if not self.candidates[index].is_undone:
            return None
        change = same_change(self.commits[index].sha, self.branches)
        for later in range(len(self.candidates) - 1, index, -1):
            candidate = self.candidates[later]
            if not candidate.is_undone and any(
                change & same_change(sha, self.branches) for sha in candidate.shas
            ):
                return later
        return None

    def _branch_text(self, index: int) -> str | None:
        """Describe where the change of a candidate is on the branches of the ends; None
        if it is on the main line.
        """
        text = place_of(self.commits[index].sha, self.branches)
        if not self.candidates[index].is_undone:
            return text
        old, new = (self.candidates[end].revision.name for end in (0, -1))
        kept = self.original(index)
        if kept is None:
            has = "lacks it"
        else:
            has = f"has {self.candidates[kept].shas[0][:_SHORT_SHA]}"
        return "; ".join(filter(None, [text, f"{old} has it, {new} {has}"]))


@dataclass(frozen=True)
class CompilerSources:
    """Where compilers of commits come from."""

    family: str
    project: Project
    sources: Sequence[Source]
    unused: Source | None = None
    """It builds commits, but was not allowed to."""
    reported: Callable[[Path], str | None] = lambda _: None
    """Reads the commit that the compiler in a folder reports."""


def commit_range(
    compilers: CompilerSources,
    timeline: Timeline,
    ends: tuple[tuple[str, ToolchainRef | None], tuple[str, ToolchainRef | None]],
) -> CommitCandidates:
    """Ask every source for compilers of the commits between two, the old one included.

    A source that fails is left out if another one answers. Commits without a file that
    can change the compiler are not candidates, unless there are no others. `timeline`
    is a line with the new end; `ends` are shas, each with its toolchain if that is not
    the commit's own.

    Raises:
        BadInput: The old end is not older than the new one.
        EnvironmentFailure: Every source failed.
    """
    (old, old_ref), (new, new_ref) = ends
    project, sources = compilers.project, compilers.sources
    span, fork = timeline.between(old, new), timeline.fork(old)
    inside = range(fork.index, span.stop)
    groups = _groups(timeline, inside, sources, project)
    undone: list[_Group] = []
    if fork.own:
        undone = _groups(fork.line, fork.own, sources, project)
        undone.reverse()
    both = [*undone, *groups]
    links = links_of(timeline.repository.remote) or links_of(project.repository)
    obtained: dict[Path, str] = {}
    candidates, commits = [], []
    refs_of_ends = {0: old_ref, len(both) - 1: new_ref}
    for index, group in enumerate(both):
        is_undone = 0 < index <= len(undone)
        if is_undone:
            changed = both[index - 1].commits[0]
        else:
            changed = group.commits[0]
        candidate = _candidate(group, compilers, refs_of_ends.get(index), obtained)
        candidate.change, candidate.is_undone = suspect_of(changed, links), is_undone
        candidates.append(candidate)
        commits.append(changed)
    unused_builds: Sequence[Build] = ()
    if compilers.unused:
        unused_builds = compilers.unused.builds(timeline, inside)
    seconds = max((build.seconds for build in unused_builds), default=None)
    steps, cost = _cost(both[1:-1], len(both) - 1, seconds)
    return CommitCandidates(
        tuple(candidates),
        obtained=obtained,
        timeline=timeline,
        project=project,
        commits=tuple(commits),
        most_builds=steps,
        cost=cost,
    )


def _candidate(
    group: _Group,
    compilers: CompilerSources,
    end: ToolchainRef | None,
    obtained: dict[Path, str],
) -> Candidate:
    """Return the candidate of commits with the same compiler.

    `end` is the toolchain of an end of the range, if it is not the commit's own. The
    source of a compiler is added to `obtained` when it is downloaded or built.
    """
    revision, untestable = group.commits[0].revision, None
    own_source: list[str] = []

    def note_source(root: Path, build: Build) -> None:
        own_source.append(build.source)
        if build.seconds:
            obtained[root] = build.source

    if end:
        ref = end
        revision = replace(revision, name=end.revision.name)
    else:
        bring = _obtainer(group, compilers.sources, compilers.reported, note_source)
        ref = ToolchainRef(compilers.family, revision, bring=bring)
        if not group.builds:
            untestable = group.untestable
    return Candidate(
        revision,
        ref,
        group.builds[0].seconds if group.builds else 0.0,
        untestable,
        shas=tuple(commit.sha for commit in group.commits),
        obtained_from=own_source,
    )


def _cost(
    groups: Sequence[_Group], commits: int, unused_seconds: float | None
) -> tuple[int, str]:
    """Return how many compilers a search obtains at most, and a text on where they come
    from and what that takes.

    Downloads come first, then builds between two of them. unused_seconds: what a build
    takes that the user did not allow.
    """
    cheapest = [group.builds[0] for group in groups if group.builds]
    builds = [
        build.seconds
        for build in cheapest
        if build.seconds and _is_made_on_request(build)
    ]
    downloads = [
        build.seconds
        for build in cheapest
        if build.seconds and not _is_made_on_request(build)
    ]
    ready = len(cheapest) - len(builds) - len(downloads)
    steps = [
        (_probes_among(len(builds), ready + len(downloads)), builds, "build"),
        (_probes_among(len(downloads), ready), downloads, "download"),
    ]
    seconds = sum(count * max(costs, default=0.0) for count, costs, _ in steps)
    nouns = [_count_text(count, noun) for count, _, noun in steps if count]
    sources = Counter(build.source for build in cheapest if build.seconds)
    found = [f"{number} from {source}" for source, number in sources.items()]
    if ready:
        found.append(f"{ready} here")
    text = (
        f"{_count_text(commits, 'commit')}; {_share_text(len(cheapest), len(groups))}"
    )
    if found:
        text += f" ({', '.join(found)})"
    if nouns:
        text += f": about {' and '.join(nouns)}, about {_duration_text(seconds)}"
    lacking = len(groups) - len(cheapest)
    if lacking and unused_seconds is not None:
        count = _probes_among(lacking, len(cheapest))
        text += (
            f"; --build adds the others: about {_count_text(count, 'build')}, about "
            f"{_duration_text(count * unused_seconds)}"
        )
    if UNTIMED_BUILD in (*builds, unused_seconds):
        text += f" if a build takes {_duration_text(UNTIMED_BUILD)}"
    return sum(count for count, *_ in steps), text


def _share_text(having: int, groups: int) -> str:
    if groups == 0:
        return "none between the ends"
    if having == 0:
        return f"none of the {groups} between the ends has a compiler"
    if having == groups:
        return f"all {groups} between the ends have a compiler"
    return f"of the {groups} between the ends {having} have a compiler"


def _probes_among(costly: int, cheap: int) -> int:
    """Return how many of the costly candidates a search probes, if the cheap ones
    divide them evenly.
    """
    return math.ceil(math.log2(1 + costly / (cheap + 1)))


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _duration_text(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{seconds / 3600:.1f}".removesuffix(".0") + " h"


def suspect_of(commit: Commit, links: Links | None) -> Suspect:
    """Return a commit, read with its files, as a suspect without probability.

    links: the pages of its repository.
    """
    number, url = pull_request(commit.subject), None
    if links and number:
        url = links.pull(number)
    elif links:
        url = links.commit(commit.sha)
    return Suspect(
        **asdict(commit.revision), pull_request=number, url=url, files=commit.files
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """A commit, those after it that cannot change the compiler, and what sources say of
    any of them.
    """

    commits: list[Commit]
    found: list[Build]

    @property
    def builds(self) -> list[Build]:
        """The compilers that can be obtained, the cheapest first."""
        usable = [build for build in self.found if build.untestable is None]
        return sorted(usable, key=lambda build: (build.seconds, build.position.index))

    @property
    def untestable(self) -> str:
        return next(
            (build.untestable for build in self.found if build.untestable), _NO_COMPILER
        )


def _groups(
    timeline: Timeline, indices: range, sources: Iterable[Source], project: Project
) -> list[_Group]:
    """Ask the sources about commits, and group each with those after it that cannot
    change the compiler. Raises EnvironmentFailure if every source fails.
    """
    found: dict[int, list[Build]] = {index: [] for index in indices}
    failures: list[EnvironmentFailure] = []
    for source in sources:
        try:
            for build in source.builds(timeline, indices):
                # A compiler of a branch has more changes than the commit where the
                # branch left the line: it proves nothing.
                if build.position.exact:
                    found[build.position.index].append(build)
        except EnvironmentFailure as error:
            failures.append(error)
    if failures and not any(found.values()):
        raise failures[0]
    commits = timeline.with_files(indices)
    is_inert = [
        bool(commit.files) and not any(map(project.can_change, commit.files))
        for commit in commits
    ]
    groups: list[_Group] = []
    for index, commit, inert in zip(indices, commits, is_inert, strict=True):
        if not groups or not inert or all(is_inert[1:]):
            groups.append(_Group([commit], found[index]))
        else:  # a compiler that is made on request is made for the first commit only
            groups[-1].commits.append(commit)
            groups[-1].found.extend(
                build
                for build in found[index]
                if not build.seconds or not _is_made_on_request(build)
            )
    return groups


def _is_made_on_request(build: Build) -> bool:
    """Return whether a source makes a compiler of any commit on request."""
    return build.item == build.revision.commit


def _obtainer(
    group: _Group,
    sources: Iterable[Source],
    reported: Callable[[Path], str | None],
    note_source: Callable[[Path, Build], None],
) -> Callable[..., Path]:
    """Return a function that obtains the compiler of a commit for `ToolchainRef.bring`:
    the cheapest build that works. It calls `note_source` with its folder and
    that build.
    """
    by_name = {source.name: source for source in sources}
    used: list[Build] = []

    def obtain(package: str | None = None) -> Path:
        reasons: list[str] = []
        for build in used[-1:] if package else group.builds:
            try:
                root = by_name[build.source].obtain(build, package)
                # A compiler that is built on request may report the commit at which its
                # build folder was configured.
                if package or _is_made_on_request(build):
                    actual = None
                else:
                    actual = reported(root)
                if actual and not any(
                    commit.sha.startswith(actual) for commit in group.commits
                ):
                    name = build.revision.name[:40]
                    expected = group.commits[0].sha[:_SHORT_SHA]
                    reasons.append(
                        f"{build.source}: {name} reports that it was built from "
                        f"{actual[:_SHORT_SHA]}, not from {expected}"
                    )
                    continue
            except Unobtainable as error:
                reasons.append(f"{build.source}: {error}")
                continue
            if not package:
                used.append(build)
                note_source(root, build)
            return root
        raise Unobtainable("; ".join(reasons) or group.untestable)

    return obtain
