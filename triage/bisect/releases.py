"""Find the ends of a bisect over releases that were not named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from triage.bisect.changes import answer, passing_search, transition
from triage.bisect.history import looked_at_first, releases_at_bounds
from triage.bisect.result import Bisection, BisectKind, Side
from triage.bisect.search import Search
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Failed, NoAnswer, Outcome, Passed


def search_from_open_ends(
    search: Search, first: int | None, last: int | None
) -> Search | Bisection:
    """Find the missing ends among all releases. Return the search between them, or the
    answer if there are none.

    Without both ends, a failure that the newest release does not have is searched where
    it was last; the search's `fixed` then has its fix.
    """
    line = search.line
    low = first or 0
    newest = last
    if newest is None:
        newest = next(
            (
                index
                for index in range(search.last, low - 1, -1)
                if not isinstance(line.outcome(index), NoAnswer)
            ),
            None,
        )
    if newest is None:
        cause = line.outcome(search.last).cause or Cause.NOT_FOUND
        return answer(search, NoAnswer(cause, "no release could be tested"))
    search = replace(search, first=low, last=newest)
    outcome = line.outcome(newest)
    is_regression = search.kind is BisectKind.REGRESSION
    if is_regression and isinstance(outcome, Passed) and first is last is None:
        fixed = _search_of_fix(search)
        if isinstance(fixed, NoAnswer):
            return answer(search, fixed)
        pair = fixed.run()
        fix = transition(fixed, pair)
        if not pair.confirmed:
            return answer(fixed, pair, broke=fix)
        search = replace(search, last=pair.before, fixed=fix)
    elif search.kind.side(search.verdict(outcome)) is not Side.NEW:
        return answer(search, search.problem_of(newest))
    if first is None:
        wanted = Passed if is_regression else Failed
        first = _newest_before(search, wanted)
    if first is None:
        return _never_passed(search)
    if first >= search.last:
        raise BadInput(
            f"{line.name(first)} is the newest testable release: there is nothing to "
            "search after it"
        )
    return replace(search, first=_before_older_failures(search, first))


def _before_older_failures(search: Search, first: int) -> int:
    """Return a good end before all failures that were seen, if they may come and go:
    the pair may be where that only became worse.
    """
    line = search.line
    failing = [index for index in line.indices_of(Failed) if index < first]
    if search.kind is BisectKind.FIX or not failing or not line.comes_and_goes():
        return first
    passing = [index for index in line.indices_of(Passed) if index < failing[0]]
    return max(passing, default=first)


def _search_of_fix(search: Search) -> Search | NoAnswer:
    """Return the search for the fix with which the newest release compiles."""
    failing = _newest_before(search, Failed)
    if failing is None:
        return _reason_if_alike(search)
    fix = replace(search, kind=BisectKind.FIX, first=failing)
    return passing_search(fix).verified()


def _newest_before(search: Search, wanted: type[Outcome]) -> int | None:
    """Return the newest release before the last one that ended so; None if all that are
    looked at are alike. Where the failure may come and go, it ended so twice.
    """
    line = search.line
    for looked_at in _releases_to_look_at(search):
        line.walk(looked_at)
        while seen := [
            index for index in line.indices_of(wanted) if index < search.last
        ]:
            if len(line.outcomes(seen[-1])) > 1 or not line.comes_and_goes():
                return seen[-1]
            line.probe({seen[-1]: 1})
    return None


def _releases_to_look_at(search: Search) -> Iterator[list[int]]:
    """Yield releases to look at, those that are likely to differ first.

    At last come the installed releases, because a short window may lie anywhere, and
    all if a fix was asked for.
    """
    request = search.line.request
    refs = [candidate.ref for candidate in search.line.candidates]
    yield looked_at_first(
        search.first, search.last, releases_at_bounds(request.case, refs)
    )
    others = range(search.last - 1, search.first - 1, -1)
    is_installed = request.engine.registry.is_installed
    yield [index for index in others if is_installed(refs[index])]
    if search.kind is BisectKind.FIX:
        yield list(others)


def _reason_if_alike(search: Search) -> NoAnswer:
    """Return why nothing is before the last release: all that are tested end alike."""
    line = search.line
    tested = [*line.indices_of(Passed), *line.indices_of(Failed)]
    oldest = min(index for index in tested if index >= search.first)
    if oldest < search.last:
        return replace(search, first=oldest).problem_of(oldest)
    why = f"no release before {line.name(search.last)} can be tested"
    return NoAnswer(Cause.NOT_FOUND, why)


def _never_passed(search: Search) -> Bisection:
    """Answer for a case that no release compiles before a fix, if there is one."""
    bisection = answer(search, _reason_if_alike(search))
    fixed = search.fixed
    if fixed is None:
        return bisection
    return bisection.about(
        fixed, kind=BisectKind.FIX, failure=fixed.failure, broke=fixed
    )
