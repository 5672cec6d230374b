"""From what a user names (a case, a repository, two revisions or none) to a search and
its answer.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from packaging.version import Version

from triage.bisect.candidates import (
    BisectRange,
    CommitCandidates,
    CompilerSources,
    commit_range,
    release_range,
)
from triage.bisect.changes import find_changes
from triage.bisect.line import Line
from triage.bisect.releases import search_from_open_ends
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection
from triage.bisect.search import Search
from triage.execution.judge import result_of
from triage.execution.own_program import case_with_own_program
from triage.git_history.branches import main_refs
from triage.git_history.repository import Repository, UnknownCommit
from triage.git_history.timeline import Timeline
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.outcome import Cause, NoAnswer
from triage.recipes.values import parse_version
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry, is_day
from triage.toolchains.sources.project import sources_of, tagged_commit


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """One end of a range of commits."""

    commit: str
    """The full sha."""
    ref: ToolchainRef | None = None
    """Its toolchain, if that is not the commit's own."""

    @property
    def is_release(self) -> bool:
        return self.ref is not None and self.ref.is_release


def bisect_between(
    request: BisectRequest, before: str | None = None, after: str | None = None
) -> Bisection:
    """Find the release or commit that changed the case between two revisions, the old
    one first; see `plan`.
    """
    search = plan(request, before, after)
    if isinstance(search, Bisection):
        return search
    return find_changes(search)


def plan(
    request: BisectRequest, before: str | None, after: str | None
) -> Search | Bisection:
    """Plan the search between two revisions, the old one first; either may be missing.

    Without a clone, releases are searched. With one, commits are searched between two
    ends that are not both releases. Otherwise this function searches the releases, and
    plans the search of the commits between the two where it broke, even if the failure
    changed later. If the releases show no such pair, their answer is returned.

    Raises:
        BadInput: A revision does not exist, or the ends are in the wrong order.
        EnvironmentFailure: No source can be asked.
    """
    if request.repo is None:
        return _plan_releases(request, before, after)
    for text in (before, after):
        if text and not range_end(request, text).is_release:
            if before and after:
                return plan_commits(request, before, after)
            raise BadInput(
                f"{text} has no other end: name both --good and --bad where one of "
                "them is not a release"
            )
    search = _plan_releases(replace(request, repo=None), before, after)
    if isinstance(search, Bisection):
        return search
    releases = find_changes(search)
    pair = releases.broke
    if pair is None or releases.kind is not request.kind:
        return releases
    # the program may be one that a release makes itself
    request = replace(request, case=search.line.request.case)
    commits = plan_commits(request, pair.before.name, pair.after.name)
    return replace(commits, fixed=releases.fixed)


def _plan_releases(
    request: BisectRequest, before: str | None, after: str | None
) -> Search | Bisection:
    refs, first, last = _releases(request, before, after)
    search = search_versions(request, refs)
    if first is not None and last is not None:
        return replace(search, first=first, last=last)
    found = search_from_open_ends(search, first, last)
    if isinstance(found, Bisection):  # it passes everywhere, or the search failed
        own = _search_of_own_program(search)
        if own is not None:
            return search_from_open_ends(own, first, last)
    return found


def _search_of_own_program(search: Search) -> Search | None:
    """Return a new search for a case that passes everywhere, with the program that a
    release makes itself and fails on; None if no release does.
    """
    line = search.line
    refs = [candidate.ref for candidate in line.range.candidates]
    tried = [index for index in range(len(line)) if line.probes[index]]
    results = [result_of(probe) for index in tried for probe in line.probes[index]]
    request = line.request
    case = case_with_own_program(
        request.engine, request.case, [refs[index] for index in tried], results
    )
    if case:
        return search_versions(replace(request, case=case), refs)
    return None


def plan_commits(request: BisectRequest, before: str, after: str) -> Search:
    """Plan the search along the commits between two revisions, the old one first;
    errors as of `plan`.
    """
    commits = _commits_between(request, before, after)
    request.engine.progress.note(f"{request.case.name}: {commits.cost}")
    if not request.go_on(commits.cost):
        raise Interrupted("stopped before the search over commits")
    return whole_search(request, commits)


def search_versions(request: BisectRequest, refs: Sequence[ToolchainRef]) -> Search:
    """Make the search along toolchains, oldest first."""
    return whole_search(request, release_range(request.engine.registry, refs))


def whole_search(request: BisectRequest, candidates: BisectRange) -> Search:
    """Make the search between the oldest and the newest of some candidates."""
    last = len(candidates.candidates) - 1
    return Search(Line(request, candidates), 0, last, request.kind)


def candidates_of(
    request: BisectRequest, before: str | None, after: str | None
) -> BisectRange:
    """Return what a bisect may probe: commits if both ends are named and are not
    releases, else releases. Probes nothing.
    """
    if before and after and request.repo:
        ends = [range_end(request, text) for text in (before, after)]
        if not all(end.is_release for end in ends):
            return _commits_between(request, before, after)
    refs, first, last = _releases(request, before, after)
    if before and after and request.repo and len(refs[first:last]) == 1:
        return _commits_between(request, before, after)
    return release_range(
        request.engine.registry, refs[first : None if last is None else last + 1]
    )


def compilers_at(
    request: BisectRequest, before: str, after: str
) -> tuple[ToolchainRef, ToolchainRef]:
    """Return the compilers of two revisions, which may be the same.

    Nothing is probed; a release may be installed to read its commit.

    Raises:
        BadInput: As `plan`; also if both revisions are one commit, unless each names a
            toolchain.
    """
    if request.repo is None:
        registry, family = request.engine.registry, request.case.compiler
        return registry.resolve(before, family), registry.resolve(after, family)
    old, new = range_end(request, before), range_end(request, after)
    if old.ref and new.ref:
        return old.ref, new.ref
    if old.commit == new.commit:
        raise BadInput(
            f"{before} and {after} are the same commit; name a compiler that stays as "
            "a release or with path:"
        )
    candidates = _commits_between(request, before, after).candidates
    return candidates[0].ref, candidates[-1].ref


def _releases(
    request: BisectRequest, before: str | None, after: str | None
) -> tuple[Sequence[ToolchainRef], int | None, int | None]:
    """Return releases, oldest first, and the indices of both ends; None for an end
    that is not named.

    Between two ends that are not both releases, nightlies come too.

    Raises:
        BadInput: A text is not a release of the index, the ends are in the wrong order,
            or a build reports no version.
    """
    registry, family = request.engine.registry, request.case.compiler
    ends = [
        registry.resolve(text, family) if text else None for text in (before, after)
    ]
    if ends[0] and ends[1] and not (ends[0].is_stable and ends[1].is_stable):
        versions = versions_between(registry, ends[0], ends[1])
        if versions.problem is not None:
            wrong = f"{before} .. {after}: {versions.problem.reason}"
            raise BadInput(
                f"{wrong}; with --repo, a clone of the compiler, commits are searched"
            )
        if versions.skipped is not None:
            request.engine.progress.note(versions.skipped)
        return versions.refs, 0, len(versions.refs) - 1
    refs = registry.releases(family)
    names = [ref.revision.name for ref in refs]
    for text, ref in zip((before, after), ends, strict=True):
        if ref and ref.revision.name not in names:
            listed = f"{names[0]} .. {names[-1]}"
            raise BadInput(
                f"{text!r} is not a stable release of the index ({listed}); commits "
                "and nightlies need --repo"
            )
    first, last = (names.index(ref.revision.name) if ref else None for ref in ends)
    if first is not None and last is not None and first >= last:
        raise BadInput(
            f"{before} is not older than {after}: a regression needs --good before "
            "--bad, and --find fix --bad before --good"
        )
    return refs, first, last


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Two toolchains and what lies between them."""

    refs: tuple[ToolchainRef, ...] = ()
    """Both ends and what lies between them, oldest first; empty if nothing can be
    searched.
    """
    problem: NoAnswer | None = None
    """Why it is empty."""
    skipped: str | None = None
    """Why nightlies are left out."""


def _no_versions(reason: str) -> VersionRange:
    return VersionRange(problem=NoAnswer(Cause.NOT_FOUND, reason))


def versions_between(
    registry: ToolchainRegistry,
    old: ToolchainRef,
    new: ToolchainRef,
    *,
    nightlies: bool = False,
) -> VersionRange:
    """Return the toolchains between two others. The version of a local build is the one
    that it reports.

    nightlies: include them between two releases, too.

    Raises:
        EnvironmentFailure: The releases cannot be listed, or a build does not run.
    """
    versions = []
    for ref in (old, new):
        version = parse_version(
            ref.revision.name if ref.path is None else registry.obtain(ref).version
        )
        if version is None:
            return _no_versions(f"{ref.revision.name} reports no version")
        versions.append(version)
    first, last = versions
    if first >= last:
        return _no_versions(
            f"{new.revision.name} is not newer than {old.revision.name}"
        )
    refs, skipped = list(registry.releases(new.family)), None
    if nightlies or not (old.is_stable and new.is_stable):
        try:
            refs += registry.nightlies(new.family)
        except (BadInput, EnvironmentFailure) as error:
            skipped = f"nightlies are left out: {error}"
    by_version = {Version(ref.revision.name): ref for ref in refs}
    inside = {
        version: ref for version, ref in by_version.items() if first < version < last
    }
    return VersionRange(
        (old, *(inside[version] for version in sorted(inside)), new), skipped=skipped
    )


def rev_text(ref: ToolchainRef) -> str:
    """Return the REV that names a toolchain on every day: no `latest` or `previous`."""
    if ref.is_nightly and ref.revision.date:
        return f"nightly:{ref.revision.date}"
    return ref.revision.name


def _commits_between(
    request: BisectRequest, before: str, after: str
) -> CommitCandidates:
    """Return the commits between two revisions, with the compilers that the request's
    project offers for them; errors as of `plan`.
    """
    registry, family = request.engine.registry, request.case.compiler
    old, new = range_end(request, before), range_end(request, after)
    project, repository = request.project, request.repository
    context = (
        repository,
        registry.workspace,
        registry.packaging(family),
    )
    compilers = CompilerSources(
        family,
        project,
        sources_of(project, *context),
        reported=partial(registry.reported_commit, family),
    )
    timeline = line_to(repository, new.commit)
    return commit_range(
        compilers, timeline, ((old.commit, old.ref), (new.commit, new.ref))
    )


def line_to(repository: Repository, newest: str) -> Timeline:
    """Return the line with a commit: the checked out one or the main one, else the line
    that ends with it.
    """
    for ref in ("HEAD", *main_refs(repository)):
        try:
            timeline = Timeline(repository, ref)
            if timeline.place(newest).exact:
                return timeline
        except BadInput:  # no such ref, or a line without a common commit
            continue
    return Timeline(repository, newest)


def range_end(request: BisectRequest, text: str) -> RangeEnd:
    """Resolve a revision to a commit. Raises BadInput if it is neither a revision nor a
    name that git knows.
    """
    word, colon, rest = text.partition(":")
    if colon and word == "commit":
        return RangeEnd(request.repository.resolve(rest))
    if colon and word == "nightly":
        return RangeEnd(_nightly_commit(request, text, rest))
    if is_day(text):
        timeline = Timeline(request.repository)
        return RangeEnd(timeline.commits[timeline.newest_at(text)].sha)
    try:
        ref = request.engine.registry.resolve(text, request.case.compiler)
    except BadInput as wrong:
        try:
            return RangeEnd(request.repository.resolve(text))
        except UnknownCommit as unknown:
            raise BadInput(f"{wrong}, or with --repo a commit: {unknown}") from unknown
    toolchain = request.engine.registry.obtain(ref)
    commit = toolchain.revision.commit or tagged_commit(
        request.project, request.repository, ref.revision.name
    )
    try:
        return RangeEnd(request.repository.resolve(commit), ref)
    except UnknownCommit as unknown:
        raise UnknownCommit(
            f"{ref.revision.name} was built from {commit[:10]}, which the clone "
            f"lacks: {unknown}"
        ) from unknown


def _nightly_commit(request: BisectRequest, text: str, day: str) -> str:
    """Return the sha of the newest tagged nightly of a day, or of the newest commit of
    that day if there is no tag.

    Raises BadInput, which names `text`, if it is not a day.
    """
    timeline = Timeline(request.repository)
    stamp = day.replace("-", "")
    if not (stamp.isdigit() and len(stamp) == 8):
        raise BadInput(
            f"{text!r}: a nightly is named by its day, such as nightly:2025-06-04"
        )
    placed: dict[int, str] = {}
    for name in fnmatch.filter(timeline.tags, f"*{stamp}*"):
        with suppress(BadInput):  # a tag without common history
            placed[timeline.place(timeline.tags[name]).index] = timeline.tags[name]
    if placed:
        return placed[max(placed)]
    return timeline.commits[
        timeline.newest_at(f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:]}")
    ].sha
