"""Find the ends of a bisect over releases that were not named."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from triage.bisect.answer import answer
from triage.bisect.history import bounds_of, middles_of_changes, state_of
from triage.bisect.result import Bisection, BisectKind, Side, hint_if_unexpected
from triage.bisect.search import BisectSearch, run_search
from triage.bisect.two_changes import search_change
from triage.execution.judge import result_of
from triage.execution.match import any_failure, verdict_of
from triage.execution.task import ProbeJob
from triage.model.errors import BadInput
from triage.model.outcome import (
    Cause,
    Failed,
    NoAnswer,
    Outcome,
    Passed,
    Verdict,
)


def search_from_open_ends(
    search: BisectSearch, first: int | None, last: int | None
) -> BisectSearch | Bisection:
    """Find the missing ends among all releases. Return the search between them, or the
    answer if there are none.

    Without both ends, a failure that the newest release does not have is searched where
    it was last; the search's `fixed` then has its fix.
    """
    ends = _find_ends(search, first, last)
    if isinstance(ends, NoAnswer):
        changed = _search_other_failure(search)
        if changed is not None:
            return changed
        search.stopped = ends
        found = answer(search)
        fixed = found.fixed
        if fixed is None:
            return found
        hint = hint_if_unexpected(search.request.case, fixed.failure)
        # it was always there until then
        return found.about(
            fixed,
            kind=BisectKind.FIX,
            failure=fixed.failure,
            hint=hint,
            broke=fixed,
        )
    part, candidates = search.part(*ends), search.range.candidates
    outside = (*candidates[: ends[0]], *candidates[ends[1] + 1 :])
    results = [result_of(one.probes[-1]) for one in outside if one.probes]
    left_out = tuple(one for one in results if one.untestable)
    part.range = replace(part.range, left_out=left_out)
    return part


def _find_ends(
    search: BisectSearch, first: int | None, last: int | None
) -> tuple[int, int] | NoAnswer:
    """Return the indices of both ends, or why there are none."""
    kind = search.request.kind
    if last is None:
        newest = range(search.last, -1, -1)
        last = next(
            (
                index
                for index in newest
                if not isinstance(search.outcome(index), NoAnswer)
            ),
            None,
        )
        if last is None:
            outcome = search.outcome(search.last)
            return NoAnswer(
                outcome.cause or Cause.NOT_FOUND, "no release could be tested"
            )
        if (
            first is None
            and kind is BisectKind.REGRESSION
            and isinstance(search.outcome(last), Passed)
        ):
            fixed = _before_the_fix(search, last)
            if isinstance(fixed, NoAnswer):
                return fixed
            last = fixed
    problem = search.end_problem(last, Side.NEW)
    if problem is not None:
        return problem
    if first is None:
        found = _newest_before(search, last, is_failing=kind is BisectKind.FIX)
        if isinstance(found, NoAnswer):
            return found
        first = found
    if first >= last:
        raise BadInput(
            f"{search.name(first)} is the newest testable release: there is nothing "
            "to search after it"
        )
    return first, last


def _search_other_failure(search: BisectSearch) -> Bisection | None:
    """Search where the newest failure replaced another one, for a case that no release
    compiles; None if no release showed another one.
    """
    outcomes = [one.outcomes[-1:] for one in search.range.candidates]
    failing = [
        index for index, last in enumerate(outcomes) if any(map(_is_failing, last))
    ]
    if not failing or search.fixed or search.request.kind is BisectKind.FIX:
        return None
    failure = search.outcome(failing[-1]).failure
    assert failure is not None
    match = search.request.match(failure)
    others = [
        index
        for index in failing
        if verdict_of(search.outcome(index), match) is Verdict.SKIP
    ]
    if not others:
        return None
    found = search_change(search.part(others[-1], failing[-1]), failure)
    changed = found.transition()
    return replace(found, changed=changed) if changed else None


def _before_the_fix(search: BisectSearch, newest: int) -> int | NoAnswer:
    """Find where the newest release, which compiles, was fixed, and set the search's
    `fixed`. Return the last release that fails before it, or why there is none.
    """
    failing = _newest_before(search, newest, is_failing=True)
    if isinstance(failing, NoAnswer):
        return failing
    fix = search.part(failing, newest)
    fix.request = replace(
        search.request, kind=BisectKind.FIX, match=lambda _: any_failure
    )
    found = run_search(fix)
    if found.before is None:
        return found.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
    last = next(
        index
        for index in range(failing, newest)
        if search.name(index) == found.before.name
    )
    problem = search.end_problem(last, Side.NEW)
    if problem is not None:
        return problem
    outcome = search.outcome(last)
    assert isinstance(outcome, Failed)
    search.fixed = found.transition(outcome.failure)
    return last


def _newest_before(
    search: BisectSearch, last: int, *, is_failing: bool
) -> int | NoAnswer:
    """Probe releases before `last` until one fails, or with `is_failing` false
    compiles, and return it. If all that are looked at are alike, return the reason.
    """
    jobs, candidates = search.request.engine.jobs, search.range.candidates
    for wanted in _releases_to_look_at(search, last):
        for start in range(0, len(wanted), jobs):
            batch = wanted[start : start + jobs]
            search.probe_unprobed(batch)
            for index in batch:
                outcome = search.outcome(index)
                if is_failing:
                    is_wanted = _is_failing(outcome)
                else:
                    is_wanted = isinstance(outcome, Passed)
                if is_wanted:
                    return index
    tested = [
        i
        for i, one in enumerate(candidates)
        if one.outcomes and not isinstance(one.outcomes[-1], NoAnswer)
    ]
    if tested[0] < last:
        alike = search.reason_if_alike(tested[0], last)
    else:
        alike = None
    why = f"no release before {search.name(last)} can be tested"
    return alike or NoAnswer(Cause.NOT_FOUND, why)


def _releases_to_look_at(search: BisectSearch, last: int) -> Iterator[list[int]]:
    """Yield releases before `last` to look at, those that are likely to differ first.

    First 1, 2, 4, ... releases back, the oldest, and those around the bounds of the
    recipe's expectations. Then the middle between two neighbours that differ, until no
    such middle is left: nothing is installed between two that are alike. Last what
    costs little, because a short window may lie anywhere: releases with a known result,
    then the installed ones, and all others if a fix was asked for.
    """
    engine = search.request.engine
    case = search.request.case
    candidates = search.range.candidates
    bounds = sorted(
        bounds_of(case, [candidate.ref for candidate in candidates]), reverse=True
    )
    first = [*(last - (1 << power) for power in range(last.bit_length())), 0, *bounds]
    yield [index for index in dict.fromkeys(first) if 0 <= index < last]
    while wanted := _middles_of_differing_probes(search, last):
        yield wanted
    others = [
        index for index in range(last - 1, -1, -1) if not candidates[index].outcomes
    ]
    cached = [
        index
        for index in others
        if engine.recall(ProbeJob(case, candidates[index].ref))
    ]
    yield cached
    yield [
        index
        for index in others
        if index not in cached and engine.registry.is_installed(candidates[index].ref)
    ]
    while wanted := _middles_of_differing_probes(search, last):
        yield wanted
    if search.request.kind is BisectKind.FIX:
        yield [index for index in others if not candidates[index].outcomes]


def _middles_of_differing_probes(search: BisectSearch, last: int) -> list[int]:
    """Return the middle between each two successive probed candidates whose outcomes
    differ, up to and including `last`, newest first.
    """
    probed = [
        (index, one.outcomes[-1])
        for index, one in enumerate(search.range.candidates[: last + 1])
        if one.outcomes
    ]
    row: dict[int, Hashable] = {index: state_of(outcome) for index, outcome in probed}
    return sorted((index for _, index in middles_of_changes({"": row})), reverse=True)


def _is_failing(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and not outcome.flaky
