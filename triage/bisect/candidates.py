"""Ranges of candidates to probe: releases, or commits with the compilers that can be
had for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from triage.bisect.prior import Clues, suspicions
from triage.bisect.result import Suspect
from triage.git_history.branches import place_of, read_branches
from triage.git_history.repository import Links, links_of, pin_moved, pull_request
from triage.git_history.timeline import Timeline
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.outcome import NoAnswer
from triage.model.revision import Commit, Revision
from triage.recipes.values import duration_text
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry
from triage.toolchains.sources.base import Build, Source
from triage.toolchains.sources.project import Project

_SHORT_SHA = 10  # digits of a sha that name a commit
_NO_COMPILER = "no source has a compiler of this commit (--build builds it from source)"
_DOWNLOAD_SECONDS = 10.0  # for a release that is not installed


@dataclass(frozen=True)
class Candidate:
    """A revision that a search may probe."""

    revision: Revision
    ref: ToolchainRef
    """Its toolchain, not yet obtained."""
    seconds: float = 0.0
    """The estimated time to obtain it."""
    untestable: str | None = None
    """Why it cannot be obtained, if that is known beforehand."""
    change: Suspect | None = None
    """What the candidate before it lacks, unless that is the revision."""
    shas: tuple[str, ...] = ()
    """The commits that it stands for: its own, and those after it that cannot change
    what the compiler does.
    """
    case_of: Callable[[], Case | NoAnswer] | None = None
    """Reads the case to compile, if it is not that of the bisect."""


@dataclass(frozen=True)
class BisectRange:
    """Candidates 0 .. N-1, oldest first."""

    candidates: tuple[Candidate, ...]

    @property
    def is_of_commits(self) -> bool:
        return bool(self.candidates[0].shas)

    @property
    def fork(self) -> int | None:
        """The candidate that stands for a whole branch, if there is one."""
        return None

    def weights(self, clues: Clues) -> list[float]:  # noqa: ARG002 - commits use it
        """Return how suspicious each candidate is; the first one counts for nothing."""
        return [1.0] * len(self.candidates)

    def details(self, indices: Sequence[int], clues: Clues) -> Mapping[int, Suspect]:  # noqa: ARG002 - commits use it
        """Return what more is known of the changes of some candidates."""
        return {}


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

    The old end may be on a branch that the new end does not contain. Then the commit
    where it leaves the timeline follows it, and stands for all that the branch has.
    """

    timeline: Timeline
    project: Project
    commits: tuple[Commit, ...]
    """The change of each candidate, with its files; of the first one too, which is
    ignored.
    """
    branch: str | None = None
    """What the new end lacks of the old one, if that is on a branch."""
    cost: str
    """About what a search takes, without the compiles of the case."""

    @property
    def fork(self) -> int | None:
        if self.branch:
            return 1
        return None

    def weights(self, clues: Clues) -> list[float]:
        ranked = suspicions(self.commits[1:], clues, self.project)
        return [1.0, *(one.chance for one in ranked)]

    def details(self, indices: Sequence[int], clues: Clues) -> Mapping[int, Suspect]:
        ranked = suspicions(self.commits[1:], clues, self.project)
        repository, pin = self.timeline.repository, self.project.llvm
        newest = self.candidates[-1]
        branches = read_branches(repository, [(newest.revision.name, newest.shas[-1])])
        details = {}
        for index in indices:
            commit, change = self.commits[index], self.candidates[index].change
            assert change is not None
            place = place_of(commit.sha, branches)
            if index == 1 and self.branch:
                place = self.branch
            details[index] = replace(
                change,
                pin_moved=pin_moved(repository, commit, pin or ""),
                reasons=ranked[index - 1].reasons,
                place=place,
            )
        return details


@dataclass(frozen=True)
class CompilerSources:
    """Where compilers of commits come from."""

    family: str
    project: Project
    sources: Sequence[Source]
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
    branch = None
    if fork.own:
        own = fork.line.with_files(fork.own)
        groups.insert(0, *_groups(fork.line, fork.own[-1:], sources, project))
        name = old_ref.revision.name if old_ref else old[:_SHORT_SHA]
        branch = f"where the branch of {name} begins, whose "
        branch += f"{_count_text(len(own), 'commit')} the new end lacks"
    links = links_of(timeline.repository.remote) or links_of(project.repository)
    candidates = []
    refs_of_ends = {0: old_ref, len(groups) - 1: new_ref}
    for index, group in enumerate(groups):
        candidate = _candidate(group, compilers, refs_of_ends.get(index))
        change = suspect_of(group.commits[0], links)
        candidates.append(replace(candidate, change=change))
    return CommitCandidates(
        candidates=tuple(candidates),
        timeline=timeline,
        project=project,
        commits=tuple(group.commits[0] for group in groups),
        branch=branch,
        cost=_cost(groups),
    )


def _candidate(
    group: _Group, compilers: CompilerSources, end: ToolchainRef | None
) -> Candidate:
    """Return the candidate of commits with the same compiler.

    `end` is the toolchain of an end of the range, if it is not the commit's own.
    """
    revision, shas = group.commits[0].revision, tuple(one.sha for one in group.commits)
    if end:
        return Candidate(replace(revision, name=end.revision.name), end, shas=shas)
    bring = _obtainer(group, compilers.sources, compilers.reported)
    ref = ToolchainRef(compilers.family, revision, bring=bring)
    if not group.builds:
        return Candidate(revision, ref, untestable=_NO_COMPILER, shas=shas)
    return Candidate(revision, ref, group.builds[0].seconds, shas=shas)


def _cost(groups: Sequence[_Group]) -> str:
    """Say how many compilers a search obtains at most, and what that takes."""
    text = f"{_count_text(len(groups) - 1, 'commit')}, "
    seconds = [group.builds[0].seconds for group in groups[1:-1] if group.builds]
    costly = [one for one in seconds if one]
    text += f"{len(seconds)} between the ends with a compiler"
    if costly:
        count = math.ceil(math.log2(1 + len(costly)))
        duration = duration_text(count * max(costly))
        text += f": about {count} to obtain, about {duration}"
    if len(seconds) < len(groups) - 2:
        text += "; --build builds the others"
    return text


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


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
        return sorted(
            self.found, key=lambda build: (build.seconds, build.position.index)
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
) -> Callable[..., Path]:
    """Return a function that obtains the compiler of a commit for `ToolchainRef.bring`:
    the cheapest build that works.
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
            return root
        raise Unobtainable("; ".join(reasons) or _NO_COMPILER)

    return obtain
