"""Lines of candidates to probe: releases, or commits with the compilers that can be
had for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.bisect.line import Candidate, Line
from triage.bisect.request import BisectRequest
from triage.git_history.repository import Links, Repository, links_of
from triage.git_history.timeline import Timeline, main_refs
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.revision import Commit
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.sources import Build, Source

_SHORT_SHA = 10  # digits of a sha that name a commit
_NO_COMPILER = "no source has a compiler of this commit (--build builds it from source)"
_DOWNLOAD_SECONDS = 10.0  # for a release that is not installed


def release_line(request: BisectRequest, refs: Iterable[ToolchainRef]) -> Line:
    """Return a line of releases or other toolchains that the registry knows, oldest
    first.
    """
    registry = request.engine.registry
    candidates = []
    for ref in refs:
        seconds = _DOWNLOAD_SECONDS * (not registry.is_installed(ref))
        candidates.append(Candidate(registry.revision(ref), ref, seconds))
    return Line(request, candidates)


@dataclass(frozen=True, slots=True)
class LineEnd:
    """One end of a line of commits."""

    commit: str
    """The full sha."""
    ref: ToolchainRef | None = None
    """Its toolchain, if that is not the commit's own."""

    @property
    def is_release(self) -> bool:
        return self.ref is not None and self.ref.is_release


def commit_line(
    request: BisectRequest, sources: Sequence[Source], old: LineEnd, new: LineEnd
) -> Line:
    """Ask every source for compilers of the commits between two, the old one included.

    A source that fails is left out if another one answers. Commits without a file that
    can change the compiler are not candidates, unless there are no others.

    Raises:
        BadInput: The old end is not older than the new one.
        EnvironmentFailure: Every source failed.
    """
    timeline = timeline_with(request.repository, new.commit)
    span = timeline.between(old.commit, new.commit)
    fork = timeline.fork(old.commit)
    indices = range(fork.index, span.stop)
    candidates = _candidates(request, sources, timeline, indices)
    if fork.own:
        candidates[:0] = _candidates(request, sources, fork.line, fork.own[-1:])
    for index, end in ((0, old), (-1, new)):
        if end.ref:
            revision = candidates[index].revision
            commits = candidates[index].commits
            revision = replace(revision, name=end.ref.revision.name)
            candidates[index] = Candidate(revision, end.ref, commits=commits)
    fork_index = 1 if fork.own else None
    links = pages_of(request)
    return Line(request, candidates, links, request.project, fork_index)


def pages_of(request: BisectRequest) -> Links | None:
    """Return the web pages of a clone, or of the project that it should hold."""
    links = links_of(request.repository.remote)
    return links or links_of(request.project.repository)


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
        alike, compilers = groups[-1]
        alike.append(commit)
        compilers += builds[index]
    return [_candidate(request, sources, *group) for group in groups]


def _builds(
    sources: Iterable[Source], timeline: Timeline, indices: range
) -> Mapping[int, list[Build]]:
    """Ask the sources for compilers of commits."""
    builds: dict[int, list[Build]] = {index: [] for index in indices}
    failures: list[EnvironmentFailure] = []
    for source in sources:
        try:
            for build in source.builds(timeline, indices):
                # A compiler of a branch has more changes than the commit where the
                # branch left the line: it proves nothing.
                if build.position.exact:
                    builds[build.position.index].append(build)
        except EnvironmentFailure as error:
            failures.append(error)
    if failures and not any(builds.values()):
        raise failures[0]
    return builds


def _is_made_on_request(build: Build) -> bool:
    """Return whether a source makes a compiler of any commit on request."""
    return build.item == build.revision.commit


def _candidate(
    request: BisectRequest,
    sources: Iterable[Source],
    commits: Sequence[Commit],
    builds: Iterable[Build],
) -> Candidate:
    """Return the candidate of commits with the same compiler: the cheapest build that
    works.
    """
    by_name = {source.name: source for source in sources}
    cheapest = sorted(builds, key=lambda build: (build.seconds, build.position.index))
    used: list[Build] = []

    def obtain(package: str | None = None) -> Path:
        if package:
            return by_name[used[-1].source].obtain(used[-1], package)
        reasons = []
        for build in cheapest:
            try:
                root = by_name[build.source].obtain(build)
                _check_commit(request, commits, build, root)
            except Unobtainable as error:
                reasons.append(f"{build.source}: {error}")
                continue
            used.append(build)
            return root
        raise Unobtainable("; ".join(reasons) or _NO_COMPILER)

    revision = commits[0].revision
    ref = ToolchainRef(request.case.compiler, revision, bring=obtain)
    candidate = Candidate(revision, ref, commits=tuple(commits))
    if cheapest:
        return replace(candidate, seconds=cheapest[0].seconds)
    return replace(candidate, untestable=_NO_COMPILER)


def _check_commit(
    request: BisectRequest, commits: Sequence[Commit], build: Build, root: Path
) -> None:
    """Raise Unobtainable if a package reports that it was built from another commit.
    What is built on request may report where its build folder was configured.
    """
    if _is_made_on_request(build):
        return
    actual = request.engine.registry.reported_commit(request.case.compiler, root)
    if actual and not any(commit.sha.startswith(actual) for commit in commits):
        raise Unobtainable(
            f"{build.revision.name[:40]} reports that it was built from "
            f"{actual[:_SHORT_SHA]}, not from {commits[0].sha[:_SHORT_SHA]}"
        )
