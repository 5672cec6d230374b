"""Commits between two revisions: as a line of candidates, with the compilers that can
be had for them, or ranked by how suspicious a failure makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.bisect.line import BisectRequest, Candidate, Line
from triage.bisect.prior import group_by_change, suspects_of
from triage.bisect.result import RankedChanges
from triage.bisect.search import Search, whole_search
from triage.git_history.repository import Repository, UnknownCommit
from triage.git_history.timeline import Timeline, main_refs
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.outcome import Failure
from triage.model.revision import Commit
from triage.toolchains.project import sources_of, tagged_commit
from triage.toolchains.registry import ToolchainRef, is_day
from triage.toolchains.sources import Build, Source

_SHORT_SHA = 10  # digits of a sha that name a commit
_NO_COMPILER = "no source has a compiler of this commit (--build builds it from source)"


@dataclass(frozen=True)
class LineEnd:
    """One end of a line of commits."""

    commit: str
    """The full sha."""
    ref: ToolchainRef | None = None
    """Its toolchain, if that is not the commit's own."""


def line_end(request: BisectRequest, text: str) -> LineEnd:
    """Resolve a revision to a commit. Raises BadInput if it is neither a revision nor a
    name that git knows.
    """
    repository = request.repository
    registry = request.engine.registry
    word, _, rest = text.rpartition(":")
    if word == "commit":
        return LineEnd(repository.resolve(rest))
    if not word and is_day(rest):
        timeline = Timeline(repository)
        return LineEnd(timeline.commits[timeline.newest_at(rest)].sha)
    try:
        ref = registry.resolve(text, request.case.compiler)
    except BadInput as wrong:
        try:
            return LineEnd(repository.resolve(text))
        except UnknownCommit as unknown:
            raise BadInput(f"{wrong}, or with --repo a commit: {unknown}") from unknown
    return release_end(request, ref)


def release_end(request: BisectRequest, ref: ToolchainRef) -> LineEnd:
    """Return a release or nightly with its commit: the one that the compiler reports,
    else that of its tag.
    """
    repository = request.repository
    name = ref.revision.name
    commit = request.engine.registry.obtain(ref).revision.commit
    commit = commit or tagged_commit(request.project, repository, name)
    try:
        return LineEnd(repository.resolve(commit), ref)
    except UnknownCommit as unknown:
        why = f"{name} was built from {commit[:10]}, which the clone lacks: {unknown}"
        raise UnknownCommit(why) from unknown


def plan_commits(request: BisectRequest, old: LineEnd, new: LineEnd) -> Search:
    """Plan the search along the commits between two, the old one included, with the
    compilers that the sources of the request's project have of them.

    A source that fails is left out if another one answers. Commits without a file that
    can change the compiler are not candidates, unless there are no others.

    Raises:
        BadInput: The old end is not older than the new one.
        EnvironmentFailure: Every source failed.
    """
    package = request.engine.registry.package(request.case.compiler)
    sources = sources_of(request.project, request.repository, package)
    timeline = timeline_with(request.repository, new.commit)
    span = timeline.between(old.commit, new.commit)
    fork = timeline.fork(old.commit)
    indices = range(fork.index, span.stop)
    candidates = _candidates(request, sources, timeline, indices)
    if fork.branch:
        candidates[:0] = _candidates(request, sources, fork.history, fork.branch[-1:])
    for index, end in ((0, old), (-1, new)):
        if end.ref:
            name = end.ref.revision.name
            commits = candidates[index].commits
            revision = replace(commits[0].revision, name=name)
            candidates[index] = Candidate(revision, end.ref, commits=commits)
    return whole_search(Line(request, candidates, fork=1 if fork.branch else None))


def timeline_with(repository: Repository, newest: str) -> Timeline:
    """Return the timeline with a commit: the checked out one or the main one, else the
    one that ends with it.
    """
    for ref in ("HEAD", *main_refs(repository)):
        try:
            timeline = Timeline(repository, ref)
            if timeline.position_of(newest).exact:
                return timeline
        except BadInput:  # no such ref, or a line without a common commit
            continue
    return Timeline(repository, newest)


def _candidates(
    request: BisectRequest,
    sources: Sequence[Source],
    timeline: Timeline,
    indices: range,
) -> list[Candidate]:
    """Make a candidate of each commit and those after it that cannot change the
    compiler, with all compilers of them.
    """
    builds = _builds(sources, timeline, indices)
    can_change = request.project.can_change
    commits = timeline.with_files(indices)
    changes = [
        not commit.files or any(map(can_change, commit.files)) for commit in commits
    ]
    groups: list[tuple[list[Commit], list[Build]]] = []
    for index, commit, is_change in zip(indices, commits, changes, strict=True):
        if not groups or is_change or not any(changes[1:]):
            groups.append(([commit], builds[index]))
            continue
        group, compilers = groups[-1]
        group.append(commit)
        compilers += builds[index]
    return [_candidate(request, *group) for group in groups]


def _builds(
    sources: Iterable[Source], timeline: Timeline, indices: range
) -> Mapping[int, list[Build]]:
    """Ask the sources for compilers of commits."""
    builds: dict[int, list[Build]] = {index: [] for index in indices}
    failures: list[EnvironmentFailure] = []
    for source in sources:
        try:
            for build in source(timeline, indices):
                builds[build.index].append(build)
        except EnvironmentFailure as error:
            failures.append(error)
    if failures and not any(builds.values()):
        raise failures[0]
    return builds


def _candidate(
    request: BisectRequest, commits: Sequence[Commit], builds: Iterable[Build]
) -> Candidate:
    """Return the candidate of commits with the same compiler: the cheapest build that
    works.
    """
    cheapest = sorted(builds, key=lambda build: (build.seconds, build.index))
    used: list[Build] = []

    def obtain(package: str | None = None) -> Path:
        if package:
            return used[-1].obtain(package)
        reasons = []
        for build in cheapest:
            try:
                root = build.obtain(None)
                _check_commit(request, commits, build, root)
            except Unobtainable as error:
                reasons.append(f"{build.source}: {error}")
                continue
            used.append(build)
            return root
        raise Unobtainable("; ".join(reasons) or _NO_COMPILER)

    revision = commits[0].revision
    ref = ToolchainRef(request.case.compiler, revision, obtain=obtain)
    seconds = cheapest[0].seconds if cheapest else 0.0
    untestable = None if cheapest else _NO_COMPILER
    return Candidate(revision, ref, seconds, untestable, tuple(commits))


def _check_commit(
    request: BisectRequest, commits: Sequence[Commit], build: Build, root: Path
) -> None:
    """Raise Unobtainable if a package reports that it was built from another commit.
    What is built on request may report where its build folder was configured.
    """
    if build.revision.name == build.revision.commit:  # it is made on request
        return
    actual = request.engine.registry.reported_commit(request.case.compiler, root)
    if actual and not any(commit.sha.startswith(actual) for commit in commits):
        raise Unobtainable(
            f"{build.revision.name[:40]} reports that it was built from "
            f"{actual[:_SHORT_SHA]}, not from {commits[0].sha[:_SHORT_SHA]}"
        )


def rank_changes(
    request: BisectRequest, good: str, bad: str, failures: Sequence[Failure]
) -> RankedChanges:
    """Rank all changes between two revisions, the most suspicious first. `failures`
    are those of the case or the log, the most important first.

    Commits of one pull request are one change, together with its reverts and with
    commits that land it again.

    Raises:
        BadInput: A revision does not exist, or the good one is not older.
    """
    old = line_end(request, good)
    new = line_end(request, bad)
    timeline = timeline_with(request.repository, new.commit)
    commits = timeline.with_files(timeline.between(old.commit, new.commit))
    suspects = suspects_of(commits, failures, request.project, request.links)
    ranked = []
    for group in group_by_change([commit.subject for commit in commits]):
        index = max(group, key=lambda member: (suspects[member].probability, -member))
        total = round(sum(suspects[member].probability for member in group), 5)
        ranked.append(replace(suspects[index], probability=total))
    ranked.sort(key=lambda change: -change.probability)
    return RankedChanges(tuple(ranked), len(commits), next(iter(failures), None))
