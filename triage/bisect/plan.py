"""From what a user names (a case, a repository, two revisions or none) to a search and
its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from packaging.version import Version

from triage.bisect.candidates import LineEnd, commit_line, release_line
from triage.bisect.changes import find_changes
from triage.bisect.line import Line
from triage.bisect.releases import search_from_open_ends
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind, Transition
from triage.bisect.search import Search
from triage.compilers.registry import family_of
from triage.execution.number_judge import Metric, engine_with_judge
from triage.execution.task import ProbeJob
from triage.git_history.repository import UnknownCommit
from triage.git_history.timeline import Timeline
from triage.model.errors import BadInput, EnvironmentFailure
from triage.recipes.values import parse_version
from triage.toolchains.project import sources_of, tagged_commit
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry, is_day


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
    good = before if request.kind is BisectKind.REGRESSION else after
    word, _, release = (good or "").rpartition(":")
    if word != "commit" and parse_version(release):
        case = family_of(request.case).compared_with(request.case, release)
        request = replace(request, case=case)
    ends = commit_ends(request, before, after)
    if ends:
        return plan_commits(request, *ends)
    along_releases = replace(request, repo=None)
    line, first, last = releases_between(along_releases, before, after)
    search = whole_search(line)
    planned: Search | Bisection = replace(search, first=first or 0)
    if first is None or last is None:
        planned = search_from_open_ends(search, first, last)
    if request.repo is None or isinstance(planned, Bisection):
        return planned
    releases = find_changes(planned)
    pair: Bisection | Transition | None = releases.broke
    if releases.failure and releases.failure.is_of_metric:
        pair = releases
    is_asked = releases.kind is request.kind
    if pair is None or not (is_asked and pair.before and pair.after):
        return releases
    commits = plan_commits(request, pair.before.name, pair.after.name)
    return replace(commits, fixed=releases.fixed)


def commit_ends(
    request: BisectRequest, before: str | None, after: str | None
) -> tuple[str, str] | None:
    """Return two revisions between which commits are searched from the start, because
    one is not a release; None if releases come first.
    """
    named = [text for text in (before, after) if text]
    if request.repo is None:
        return None
    if all(line_end(request, text).is_release for text in named):
        return None
    if before and after:
        return before, after
    raise BadInput(
        f"{named[0]} has no other end: name both --good and --bad where one of "
        "them is not a release"
    )


def whole_search(line: Line) -> Search:
    """Make the search between the oldest and the newest candidate."""
    return Search(line, 0, len(line) - 1, line.request.kind)


def compilers_at(
    request: BisectRequest, before: str, after: str
) -> tuple[ToolchainRef, ToolchainRef]:
    """Return the compilers of two revisions, which may be the same. Nothing is
    probed; a release may be installed to read its commit.
    """
    if request.repo is None:
        registry = request.engine.registry
        family = request.case.compiler
        return registry.resolve(before, family), registry.resolve(after, family)
    old = line_end(request, before)
    new = line_end(request, after)
    if old.ref and new.ref:
        return old.ref, new.ref
    candidates = plan_commits(request, before, after).line.candidates
    return candidates[0].ref, candidates[-1].ref


def planned_jobs(
    request: BisectRequest, before: str | None, after: str | None
) -> list[ProbeJob]:
    """Return a probe of each release between two; over commits, of the ends."""
    ends = commit_ends(request, before, after)
    if ends:
        refs = list(compilers_at(request, *ends))
    else:
        releases, _, _ = releases_between(request, before, after)
        refs = [release.ref for release in releases.candidates]
    return [ProbeJob(request.case, ref) for ref in refs]


# Numbers


@contextmanager
def measuring(
    request: BisectRequest,
    before: str | None,
    after: str | None,
    metric: str | None,
    above: float | None,
    seconds: float,
) -> Iterator[BisectRequest]:
    """Bisect a number of a case, such as its run time, as if its failure were that the
    number is beyond a limit.

    Yield the request; with a metric, NAME[:FUNCTION], its engine or its case calls a
    number beyond the limit a failure. seconds: for which each time is measured.
    """
    if metric is None:
        yield request
        return
    if before is None or after is None:
        raise BadInput("--metric needs --good and --bad, which say what is good")
    number, case = Metric.parse(metric), request.case
    if above is None:
        refs = request.kind.in_order(*compilers_at(request, before, after))
        engine = engine_with_judge(request.engine, case, refs, number, seconds)
        with engine as judging:
            yield replace(request, engine=judging)
        return
    if not number.exact:
        raise BadInput("--above needs a number that is the same each time")
    limits = (*case.thresholds, (number.name, above))
    yield replace(request, case=replace(case, thresholds=limits))


# Releases and nightlies


def releases_between(
    request: BisectRequest, before: str | None, after: str | None
) -> tuple[Line, int | None, int | None]:
    """Return releases, oldest first, and the indices of both ends; None for an end
    that is not named.

    Raises:
        BadInput: A text is not a release of the index, the ends are in the wrong order,
            or a build reports no version.
    """
    registry = request.engine.registry
    family = request.case.compiler
    ends = [
        registry.resolve(text, family) if text else None for text in (before, after)
    ]
    old, new = ends
    if old and new:
        refs = versions_between(registry, old, new)
        return release_line(request, refs), 0, len(refs) - 1
    refs = registry.releases(family)
    names = [ref.revision.name for ref in refs]
    for ref in ends:
        if ref and ref.revision.name not in names:
            listed = f"{names[0]} .. {names[-1]}"
            raise BadInput(
                f"{ref.revision.name} is not a stable release of the index ({listed}); "
                "name both ends, or commits and nightlies with --repo"
            )
    first, last = (names.index(ref.revision.name) if ref else None for ref in ends)
    return release_line(request, refs), first, last


def versions_between(
    registry: ToolchainRegistry,
    old: ToolchainRef,
    new: ToolchainRef,
    *,
    nightlies: bool = False,
) -> Sequence[ToolchainRef]:
    """Return two toolchains and what lies between them, oldest first. The version of a
    local build is the one that it reports.

    nightlies: include them between two releases, too.

    Raises:
        BadInput: A build reports no version, or the new one is not newer.
        EnvironmentFailure: The releases cannot be listed, or a build does not run.
    """
    versions = []
    for ref in (old, new):
        name = ref.revision.name
        version = parse_version(name if not ref.path else registry.obtain(ref).version)
        if version is None:
            raise BadInput(f"{name} reports no version; commits need --repo")
        versions.append(version)
    first, last = versions
    if first >= last:
        raise BadInput(
            f"{old.revision.name} is not older than {new.revision.name}: a regression "
            "needs --good before --bad, and --find fix --bad before --good"
        )
    refs = list(registry.releases(new.family))
    if nightlies or not (old.is_stable and new.is_stable):
        try:
            refs += registry.nightlies(new.family)
        except (BadInput, EnvironmentFailure) as error:
            registry.workspace.progress.note(f"nightlies are left out: {error}")
    by_version = {Version(ref.revision.name): ref for ref in refs}
    inside = [version for version in sorted(by_version) if first < version < last]
    return (old, *map(by_version.__getitem__, inside), new)


def rev_text(ref: ToolchainRef) -> str:
    """Return the REV that names a toolchain on every day: no `latest` or `previous`."""
    if ref.is_nightly and ref.revision.date:
        return f"nightly:{ref.revision.date}"
    return ref.revision.name


# Commits


def plan_commits(request: BisectRequest, before: str, after: str) -> Search:
    """Plan the search along the commits between two revisions, the old one first, with
    the compilers that the request's project offers for them; errors as of `plan`.
    """
    registry = request.engine.registry
    package = registry.package(request.case.compiler)
    old = line_end(request, before)
    new = line_end(request, after)
    repository = request.repository
    sources = sources_of(request.project, repository, package)
    return whole_search(commit_line(request, sources, old, new))


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
    name = ref.revision.name
    commit = registry.obtain(ref).revision.commit
    commit = commit or tagged_commit(request.project, repository, name)
    try:
        return LineEnd(repository.resolve(commit), ref)
    except UnknownCommit as unknown:
        why = f"{name} was built from {commit[:10]}, which the clone lacks: {unknown}"
        raise UnknownCommit(why) from unknown
