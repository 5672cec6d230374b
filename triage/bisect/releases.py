"""From what a user names (a case, a repository, two revisions or none) to a search and
its answer: lines of releases and nightlies, and ends that were not named.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from packaging.version import Version

from triage.bisect.commits import LineEnd, line_end, plan_commits
from triage.bisect.line import BisectRequest, Candidate, Line
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import Search, conclude, find_changes, whole_search
from triage.compilers.registry import family_of
from triage.execution.number_judge import Metric, engine_with_judge
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Failed, NoAnswer, Outcome, Passed, Verdict
from triage.recipes.values import parse_version
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry

_DOWNLOAD_SECONDS = 10.0  # for a release that is not installed


def bisect_between(
    request: BisectRequest, before: str | None = None, after: str | None = None
) -> Bisection:
    """Find the release or commit that changed the case between two revisions, the old
    one first; see `plan_search`.
    """
    search = plan_search(request, before, after)
    if isinstance(search, Bisection):
        return search
    return find_changes(search)


def plan_search(
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
    good, _ = request.kind.in_order(before, after)
    word, _, release = (good or "").rpartition(":")
    if word != "commit" and parse_version(release):
        case = family_of(request.case).with_reference(request.case, release)
        request = replace(request, case=case)
    ends = commit_ends(request, before, after)
    if ends:
        return plan_commits(request, *ends)
    planned = plan_releases(replace(request, repo=None), before, after)
    if request.repo is None or isinstance(planned, Bisection):
        return planned
    releases = find_changes(planned)
    broke = releases.broke
    if broke is None or releases.kind is not request.kind:
        return releases
    old, new = (line_end(request, end.name) for end in (broke.before, broke.after))
    return replace(plan_commits(request, old, new), fixed=releases.fixed)


def commit_ends(
    request: BisectRequest, before: str | None, after: str | None
) -> tuple[LineEnd, LineEnd] | None:
    """Return two revisions between which commits are searched from the start, because
    one is not a release; None if releases come first.
    """
    if request.repo is None:
        return None
    ends = [line_end(request, text) for text in (before, after) if text]
    if all(end.ref and end.ref.is_release for end in ends):
        return None
    if len(ends) == 1:
        raise BadInput(
            f"{before or after} has no other end: name both --good and --bad where one "
            "of them is not a release"
        )
    old, new = ends
    return old, new


def planned_jobs(
    request: BisectRequest, before: str | None, after: str | None
) -> list[ProbeJob]:
    """Return a probe of each release between two; over commits, of the ends. Nothing is
    probed; a release may be installed to read its commit.
    """
    ends = commit_ends(request, before, after)
    if ends is None:
        line, _, _ = releases_and_ends(request, before, after)
        candidates = line.candidates
    else:
        line = plan_commits(request, *ends).line
        candidates = [line.candidates[0], line.candidates[-1]]
    return [ProbeJob(request.case, candidate.ref) for candidate in candidates]


# Lines of releases


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


def releases_and_ends(
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
    """Return two toolchains and what lies between them, oldest first: nothing that is
    known between two local builds, else by the version that a build reports.

    nightlies: include them between two releases, too.

    Raises:
        BadInput: A build reports no version, or the new one is not newer.
        EnvironmentFailure: The releases cannot be listed, or a build does not run.
    """
    if old.path and new.path and old != new:
        return (old, new)
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


# Ends that were not named


def plan_releases(
    request: BisectRequest, before: str | None, after: str | None
) -> Search | Bisection:
    """Return the search between two releases, the old one first. If an end is missing,
    find it among all releases; return the answer if there is none.

    Without both ends, a failure that the newest release does not have is searched where
    it was last; the search's `fixed` then has its fix.
    """
    line, first, last = releases_and_ends(request, before, after)
    search = whole_search(line)
    if first is not None and last is not None:
        return search
    low = first or 0
    newest = last
    if newest is None:
        newest = search.last
        while newest >= low and isinstance(line.probed_outcome(newest), NoAnswer):
            newest -= 1
    if newest < low:
        cause = line.probed_outcome(search.last).cause or Cause.NOT_FOUND
        return conclude(search, NoAnswer(cause, "no release could be tested"))
    search = replace(search, first=low, last=newest)
    outcome = line.probed_outcome(newest)
    is_regression = search.kind is BisectKind.REGRESSION
    wanted = Verdict.BAD if is_regression else Verdict.GOOD
    if is_regression and isinstance(outcome, Passed) and first is last is None:
        before_fix = _search_before_fix(search)
        if isinstance(before_fix, Bisection):
            return before_fix
        search = before_fix
    elif search.verdict(outcome) is not wanted:
        return conclude(search, search.problem_of(newest))
    if first is None:
        first = _find_newest_before(search, Passed if is_regression else Failed)
    if first is None:
        if search.fixed:
            fix = replace(search, kind=BisectKind.FIX, failure=search.fixed.failure)
            return conclude(fix, None, search.fixed)
        return conclude(search, _reason_if_alike(search))
    if first >= search.last:
        raise BadInput(
            f"{line.name(first)} is the newest testable release: there is nothing to "
            "search after it"
        )
    return replace(search, first=_good_end_before_failures(search, first))


def _search_before_fix(search: Search) -> Search | Bisection:
    """Find the fix with which the newest release compiles. Return the search before it,
    or the answer if there is no confirmed one.
    """
    failing = _find_newest_before(search, Failed)
    if failing is None:
        return conclude(search, _reason_if_alike(search))
    fix = replace(search, kind=BisectKind.FIX, first=failing).verify_ends()
    if isinstance(fix, NoAnswer):
        return conclude(search, fix)
    pair = fix.run()
    if pair.change.confirmed:
        return replace(search, last=pair.bad, fixed=pair.change)
    return conclude(fix, pair.older, broke=pair.change)


def _good_end_before_failures(search: Search, first: int) -> int:
    """Return a good end before all failures that were seen, if they may come and go:
    the pair may be where that only became worse.
    """
    line = search.line
    failing = [index for index in line.indices_of(Failed) if index < first]
    if search.kind is BisectKind.FIX or not failing or not line.comes_and_goes():
        return first
    passing = [index for index in line.indices_of(Passed) if index < failing[0]]
    return max(passing, default=first)


def _find_newest_before(search: Search, wanted: type[Outcome]) -> int | None:
    """Return the newest release before the last one that ended so; None if all that are
    looked at are alike. Where the failure may come and go, it ended so twice.
    """
    line = search.line
    for indices in _releases_to_try(search):
        line.probe_changes(indices)
        while ended_so := [
            index for index in line.indices_of(wanted) if index < search.last
        ]:
            if len(line.outcomes(ended_so[-1])) > 1 or not line.comes_and_goes():
                return ended_so[-1]
            line.probe({ended_so[-1]: 1})
    return None


def _releases_to_try(search: Search) -> Iterator[list[int]]:
    """Yield releases to look at, those that are likely to differ first.

    At last come the installed releases, because a short window may lie anywhere, and
    all if a fix was asked for.
    """
    request = search.line.request
    refs = [candidate.ref for candidate in search.line.candidates]
    yield spread_releases(
        search.first, search.last, releases_at_bounds(request.case, refs)
    )
    others = range(search.last - 1, search.first - 1, -1)
    is_installed = request.engine.registry.is_installed
    yield [index for index in others if is_installed(refs[index])]
    if search.kind is BisectKind.FIX:
        yield list(others)


def probe_key_releases(request: BisectRequest) -> Line:
    """Return the releases after those were probed that are likely to differ, the
    installed ones, and those between which the case changes.
    """
    releases = request.engine.registry.releases(request.case.compiler)
    search = whole_search(release_line(request, releases))
    for indices in _releases_to_try(search):
        search.line.probe_changes(indices)
    return search.line


def _reason_if_alike(search: Search) -> NoAnswer:
    """Return why nothing is before the last release: all that are tested end alike."""
    line = search.line
    tested = [*line.indices_of(Passed), *line.indices_of(Failed)]
    oldest = min(index for index in tested if index >= search.first)
    if oldest < search.last:
        return replace(search, first=oldest).problem_of(oldest)
    return NoAnswer(
        Cause.NOT_FOUND, f"no release before {line.name(search.last)} can be tested"
    )


def spread_releases(first: int, last: int, bounds: Iterable[int] = ()) -> list[int]:
    """Return the newest release, those 1, 2, 4, ... before it, the oldest, and what a
    recipe names.

    >>> spread_releases(0, 9, [3])
    [9, 8, 7, 5, 1, 0, 3]
    """
    steps = [last - (1 << power) for power in range((last - first).bit_length())]
    wanted = dict.fromkeys((last, *steps, first, *bounds))
    return [index for index in wanted if first <= index <= last]


def releases_at_bounds(case: Case, refs: Sequence[ToolchainRef]) -> set[int]:
    """Return the releases around every bound of a window that the recipe names."""
    versions = [Version(ref.revision.name) for ref in refs]
    around: set[int] = set()
    for item in case.expect:
        for bound in filter(None, (item.since, item.until)):
            index = bisect_left(versions, Version(bound))
            around |= {index - 1, index}
    return around & set(range(len(refs)))


# Numbers


@contextmanager
def metric_request(
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
    number = Metric.parse(metric)
    case = request.case
    if above is None:
        jobs = planned_jobs(request, before, after)
        ends = request.kind.in_order(jobs[0].ref, jobs[-1].ref)
        engine = engine_with_judge(request.engine, case, ends, number, seconds)
        with engine as judging:
            yield replace(request, engine=judging)
        return
    if not number.exact:
        raise BadInput("--above needs a number that is the same each time")
    limits = (*case.thresholds, (number.name, above))
    yield replace(request, case=replace(case, thresholds=limits))
