"""Find the ends of a bisect over releases that were not named, and follow a failure that changed on its way."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from triage.bisect.candidates import CommitCandidates
from triage.bisect.history import bounds_of, narrow, state_of
from triage.bisect.result import Answer, Bisection, BisectKind, Side, UntestableRevision, unexpected
from triage.bisect.search import BisectSearch, answer, part_of, run_search, wrong_end
from triage.execution.judge import Match, any_failure
from triage.model.errors import BadInput
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Untestable, Verdict


def search_from_open_ends(search: BisectSearch, first: int | None, last: int | None) -> BisectSearch | Bisection:
    """Find the missing ends among all releases. Return the search between them, or the answer if there are none.

    Without both ends, a failure that the newest release does not have is searched where it was last; the search's
    `fixed` then has its fix.
    """
    ends = _find_ends(search, first, last)
    if ends is None:
        return _with_fix_alone(search, answer(search))
    part = part_of(search, *ends)
    part.untestable_outside = tuple(
        UntestableRevision(search.revision(index), outcomes[-1].reason)
        for index, outcomes in sorted(search.outcomes.items())
        if not ends[0] <= index <= ends[1] and isinstance(outcomes[-1], Untestable)
    )
    return part


def _find_ends(search: BisectSearch, first: int | None, last: int | None) -> tuple[int, int] | None:
    """Return the indices of both ends, or None if there are none (see the search's `reason`)."""
    kind = search.request.kind
    if last is None:
        last = next((index for index in range(search.last, -1, -1) if not isinstance(_tested(search, index), Untestable)), None)
        if last is None:
            search.reason = "no release could be tested"
            outcome = search.outcomes[search.last][-1]
            search.cause = outcome.cause if isinstance(outcome, Untestable) else None
            return None
        if first is None and kind is BisectKind.REGRESSION and isinstance(search.outcomes[last][-1], Compiled):
            last = _before_the_fix(search, last)
            if last is None:
                return None
    else:
        search.ask([last])
    if not search.is_end(last, Side.NEW):
        return None
    if first is None:
        first = _newest_before(search, last, lambda one: wrong_end("", one, Side.OLD, kind) is None)
        if first is None:
            search.reason = _nothing_before(search, last)
            return None
    if first >= last:
        raise BadInput(f"{search.revision(first).name} is the newest testable release: there is nothing to search after it")
    return first, last


def _before_the_fix(search: BisectSearch, newest: int) -> int | None:
    """Return the last release that fails before the newest one, which compiles, and set the fix; or set `reason`."""
    failing = _newest_before(search, newest, _is_failing)
    if failing is None:
        search.reason = _nothing_before(search, newest)
        return None
    fix = part_of(search, failing, newest)
    fix.request = replace(search.request, kind=BisectKind.FIX, match=lambda _: any_failure)
    found = run_search(fix)
    search.outcomes |= {failing + index: outcomes for index, outcomes in fix.outcomes.items()}
    search.revisions |= {failing + index: revision for index, revision in fix.revisions.items()}
    if found.before is None:
        search.reason = found.reason
        return None
    last = next(index for index in range(failing, newest) if search.revision(index).name == found.before.name)
    outcome = search.outcomes[last][-1]
    if not isinstance(outcome, Failed):
        search.reason = f"{found.before.name} is flaky: repeated probes disagree"
        return None
    search.fixed = found.transition(outcome.failure)
    return last


def _newest_before(search: BisectSearch, last: int, fits: Callable[[Outcome], bool]) -> int | None:
    """Return a release before `last` whose outcome fits, or None if releases at growing distances are all alike.

    Probe 1, 2, 4, ... releases back, the oldest, and those around the bounds of the recipe's expectations; then the middle
    between two neighbours that differ, until no such middle is left. Nothing is probed between two that are alike.
    """
    jobs, refs = search.request.runner.jobs, [candidate.ref for candidate in search.range.candidates]
    strides = [last - (1 << power) for power in range(last.bit_length())]
    wanted = [*strides, 0, *sorted(bounds_of(search.request.case, refs), reverse=True)]
    while wanted := [index for index in dict.fromkeys(wanted) if 0 <= index < last]:
        for start in range(0, len(wanted), jobs):
            batch = wanted[start : start + jobs]
            search.ask(index for index in batch if index not in search.outcomes)
            for index in batch:
                if fits(search.outcomes[index][-1]):
                    return index
        row: dict[int, Hashable] = {i: state_of(search.outcomes[i][-1]) for i in search.outcomes if i <= last}
        wanted = sorted((index for _, index in narrow({"": row})), reverse=True)
    return None


def _tested(search: BisectSearch, index: int) -> Outcome:
    if index not in search.outcomes:
        search.ask([index])
    return search.outcomes[index][-1]


def _nothing_before(search: BisectSearch, last: int) -> str:
    """Return the reason if no release before one has another state."""
    tested = [index for index, outcomes in sorted(search.outcomes.items()) if not isinstance(outcomes[-1], Untestable)]
    same = search.alike(tested[0], last) if tested[0] < last else None
    return same or f"no release before {search.revision(last).name} can be tested"


def _is_failing(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and not outcome.flaky


def _with_fix_alone(search: BisectSearch, found: Bisection) -> Bisection:
    """Return the answer about a failure that was always there until it was fixed."""
    fixed = found.fixed
    if fixed is None:
        return found
    return replace(
        found,
        kind=BisectKind.FIX,
        status=fixed.answer,
        failure=fixed.failure,
        hint=unexpected(search.request.case, fixed.failure),
        before=fixed.before,
        after=fixed.after,
        suspects=fixed.suspects,
        confirmed=fixed.confirmed,
    )


def follow_failure(search: BisectSearch, found: Bisection) -> Bisection:
    """Add to the answer of a regression where the case broke.

    If releases with other failures lie between the last that compiles and the first with the present failure, two
    changes are searched: from compiling to failing in any way, and from another failure to the present one.
    """
    broke = found.transition()
    if broke is None or found.undone:
        return found
    names = [search.revision(index).name for index in range(search.last + 1)]
    low, high = names.index(broke.before.name), names.index(broke.after.name)
    hidden = [index for index in range(low + 1, high) if any(map(_is_failing, search.outcomes.get(index, [])[-1:]))]
    if isinstance(search.range, CommitCandidates) or not hidden:
        return replace(found, broke=broke)
    any_change = part_of(search, low, hidden[0])
    any_change.request = replace(search.request, match=lambda _: any_failure)
    first = run_search(any_change).transition()
    second = run_search(_begun(replace(part_of(search, hidden[-1], high), judge=_present_or_other), broke.failure)).transition()
    effort = search.effort
    found = replace(found, probes=effort.probes, rounds=effort.rounds, cached=effort.cached)
    if first is None or second is None:
        return found
    return replace(
        found,
        status=(first if first.answer is not Answer.CULPRIT else second).answer,
        before=second.before,
        after=second.after,
        suspects=second.suspects,
        confirmed=first.confirmed and second.confirmed,
        broke=first,
        changed=second,
    )


def search_change(search: BisectSearch, failure: Failure) -> Bisection:
    """Search where a failure came to a case that may fail in another way at the old end."""
    search.judge, search.failure = _present_or_not, failure
    search.ask(index for index in (0, search.last) if index not in search.outcomes)
    for index, side in ((0, Side.OLD), (search.last, Side.NEW)):
        name, outcome = search.revision(index).name, search.outcomes[index][-1]
        if isinstance(outcome, Untestable):
            search.reason, search.cause = f"{name} cannot be tested: {outcome.reason}", outcome.cause
        elif search.side(outcome) is not side:
            has = "already has" if side is Side.OLD else "does not have"
            search.reason = f"{name} {has} this failure: {failure.headline}"
        if search.reason is not None:
            return answer(search)
    return run_search(_begun(search, failure))


def _begun(search: BisectSearch, failure: Failure) -> BisectSearch:
    """Begin a search whose old end fails, which the check of the ends would reject."""
    search.failure = failure
    search.rebuild()
    return search


def _present_or_not(outcome: Outcome, match: Match) -> Verdict:
    """Judge in a search for the first revision with the failure that `match` recognises, whatever was before it."""
    return Verdict.GOOD if isinstance(outcome, Compiled) else _present_or_other(outcome, match)


def _present_or_other(outcome: Outcome, match: Match) -> Verdict:
    """Judge in a search for the change from another failure to the one that `match` recognises."""
    if not isinstance(outcome, Failed) or outcome.flaky:
        return Verdict.SKIP
    return Verdict.BAD if any(map(match, (outcome.failure, *outcome.others))) else Verdict.GOOD
