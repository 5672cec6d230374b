"""Find the ends of a bisect over releases, and check the ends that a user named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from triage.bisect.candidates import ReleaseCandidates
from triage.bisect.result import Bisection, BisectKind, Side, unexpected
from triage.bisect.search import BisectSearch, run_search, wrong_end
from triage.execution.judge import any_failure
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Compiled, Failed, Outcome, Untestable


def part_of(search: BisectSearch, first: int, last: int) -> BisectSearch:
    """The search between two of its releases, with the outcomes that are known of them."""
    releases = search.range
    assert isinstance(releases, ReleaseCandidates)
    inside = range(first, last + 1)
    return replace(
        search,
        range=replace(releases, refs=releases.refs[first : last + 1]),
        outcomes={index - first: list(outcomes) for index, outcomes in search.outcomes.items() if index in inside},
        belief=None,
        failure=None,
    )


def find_release_ends(search: BisectSearch, first: int | None, last: int | None) -> tuple[int, int] | None:
    """Find the missing ends among all releases; None where there are none (see the search's `reason`).

    Without both ends, a failure that the newest release does not have is searched where it was last; the search's
    `fixed` then has its fix.
    """
    if last is None:
        newest = _newest_testable(search)
        if newest is None:
            search.reason = "no release could be tested"
            outcome = search.outcomes[search.last][-1]
            search.cause = outcome.cause if isinstance(outcome, Untestable) else None
            return None
        last = newest
        if first is None and search.kind is BisectKind.REGRESSION and isinstance(search.outcomes[newest][-1], Compiled):
            last = _before_the_fix(search, newest)
            if last is None:
                return None
    else:
        search.ask([last])
    if not search.verify_end(last, Side.NEW):
        return None
    if first is None:
        first = first_where(search, _backwards(last), _in_old_state(search))
        if first is None:
            search.reason = _no_old_end(search, last)
            return None
    if first >= last:
        raise BadInput(
            f"{search.range.revision(first).name} is the newest testable release: there is nothing to search after it"
        )
    return first, last


def _newest_testable(search: BisectSearch) -> int | None:
    return first_where(search, range(search.last, -1, -1), lambda outcome: not isinstance(outcome, Untestable), jobs=1)


def _before_the_fix(search: BisectSearch, newest: int) -> int | None:
    """The last release that fails before the newest one, which compiles; sets the fix, or `reason` where there is none."""
    failing = first_where(search, _backwards(newest), is_failing)
    if failing is None:
        oldest = search.range.revision(0).name
        search.reason = f"no release from {oldest} to {search.range.revision(newest).name} fails: nothing regressed"
        return None
    fix = replace(part_of(search, failing, newest), kind=BisectKind.FIX, match=lambda _: any_failure)
    answer = run_search(fix)
    add_effort(search, fix)
    for index, outcomes in fix.outcomes.items():
        search.outcomes[failing + index] = outcomes
    if answer.before is None:
        search.reason = answer.reason
        return None
    last = next(index for index in range(failing, newest) if search.range.revision(index).name == answer.before.name)
    outcome = search.outcomes[last][-1]
    if not isinstance(outcome, Failed):
        search.reason = f"{answer.before.name} is flaky: repeated probes disagree"
        return None
    search.fixed = answer.transition(outcome.failure)
    return last


def add_effort(search: BisectSearch, part: BisectSearch) -> None:
    """Count the probes of a part, which began with the counts of the search."""
    search.probes, search.rounds, search.cached = part.probes, part.rounds, part.cached


def _backwards(last: int) -> list[int]:
    """1, 2, 4, ... releases back, the oldest, then all that were left out."""
    strides = [last - (1 << power) for power in range(last.bit_length()) if last - (1 << power) > 0]
    rest = [index for index in range(last - 1, -1, -1) if index not in strides and index != 0]
    return [*strides, 0, *rest] if last > 0 else []


def first_where(
    search: BisectSearch, order: Iterable[int], fits: Callable[[Outcome], bool], jobs: int | None = None
) -> int | None:
    """The first release in `order` whose outcome fits; None where there is none. jobs: probes at once."""
    order, jobs = list(order), jobs or search.runner.jobs
    for start in range(0, len(order), jobs):
        batch = order[start : start + jobs]
        search.ask([index for index in batch if index not in search.outcomes])
        for index in batch:
            if fits(search.outcomes[index][-1]):
                return index
    return None


def is_failing(outcome: Outcome) -> bool:
    """Whether it failed, and not only sometimes."""
    return isinstance(outcome, Failed) and not outcome.flaky


def _in_old_state(search: BisectSearch) -> Callable[[Outcome], bool]:
    return lambda outcome: wrong_end("", outcome, Side.OLD, search.kind) is None


def _no_old_end(search: BisectSearch, last: int) -> str:
    oldest, newest = search.range.revision(0).name, search.range.revision(last).name
    if search.kind is BisectKind.FIX:
        return f"nothing was fixed: no release from {oldest} to {newest} fails"
    if any(isinstance(outcomes[-1], Untestable) for outcomes in search.outcomes.values()):
        return f"no release from {oldest} to {newest} compiles it: some could not be tested"
    since = _present_form(search, last)
    changed = f"; it fails as in {newest} since {search.range.revision(since).name}" if since else ""
    return f"no release from {oldest} to {newest} compiles it: it never worked, so nothing regressed{changed}"


def _present_form(search: BisectSearch, last: int) -> int:
    """The first release of those before `last` without a gap that fail as it does. Precondition: all were probed."""
    failures = {index: outcomes[-1].failure for index, outcomes in search.outcomes.items() if isinstance(outcomes[-1], Failed)}
    match = search.match(failures[last])
    return next((index + 1 for index in range(last - 1, -1, -1) if not match(failures[index])), 0)


def with_fix_alone(bisection: Bisection, case: Case) -> Bisection:
    """The answer about a failure that was always there until it was fixed."""
    fixed = bisection.fixed
    if bisection.before is not None or fixed is None:
        return bisection
    return replace(
        bisection,
        kind=BisectKind.FIX,
        status=fixed.answer,
        failure=fixed.failure,
        hint=unexpected(case, fixed.failure),
        before=fixed.before,
        after=fixed.after,
        suspects=fixed.suspects,
        confirmed=fixed.confirmed,
    )
