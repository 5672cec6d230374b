"""From what a user names (a case, a repository, two revisions or none) to a search and
its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from triage.bisect.commits import LineEnd, line_end, plan_commits
from triage.bisect.line import BisectRequest
from triage.bisect.releases import releases_between, search_releases
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import Search, find_changes
from triage.compilers.registry import family_of
from triage.execution.number_judge import Metric, engine_with_judge
from triage.execution.task import ProbeJob
from triage.model.errors import BadInput
from triage.recipes.values import parse_version


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
    planned = search_releases(replace(request, repo=None), before, after)
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
        line, _, _ = releases_between(request, before, after)
        candidates = line.candidates
    else:
        line = plan_commits(request, *ends).line
        candidates = [line.candidates[0], line.candidates[-1]]
    return [ProbeJob(request.case, candidate.ref) for candidate in candidates]


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
