"""Find where a case broke, and where its failure came if that is another change.

Where another failure stands between passing and failing, there are two changes: the one
from passing to failing in any way, which `git bisect run` names, and the one that
brought this failure. For a fix they are the one to passing, and the one with which this
failure went. This failure is searched first: if the revision next to it passes, there
is only one change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from triage.bisect.answer import answer
from triage.bisect.result import Answer, Bisection, Side, Transition
from triage.bisect.search import BisectSearch, cannot_test, run_search
from triage.execution.match import (
    Match,
    any_failure,
    is_refusal,
    verdict_of,
    verdict_on_passing,
)
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Verdict,
)

_OF_WHOLE = (
    "probes",
    "rounds",
    "cached",
    "halving_probes",
    "obtained",
    "seconds",
    "other_failures",
    "log",
)
"""What an answer says of all searches together."""


def find_changes(search: BisectSearch) -> Bisection:
    """Search where this failure came or went, and where the case broke or was fixed.

    The answer is about this failure; it is a culprit if both changes are. A number has
    one change, because another failure hides it.
    """
    passing = _search_of_passing(search, 0, search.last)
    if not passing.begin():
        return answer(passing)
    failure = passing.failure
    assert failure is not None
    if failure.is_number:
        passing.request, passing.judge = search.request, search.judge
        passing.weigh(failure)
        return run_search(passing)
    search.failure, search.evidence = failure, passing.evidence
    if isinstance(search.outcome(search.failing_end), NoAnswer):
        found = run_search(passing)
        return _about_whole(search, found, broke=_broke(search, found))
    judge = _is_present
    if search.range.is_of_commits:
        judge = _is_present_in_commit
    found = _search_first(search, failure, judge)
    pair = _indices(search, found)
    if pair is None:
        return _about_whole(search, found)
    if search.failing_side is Side.NEW:
        (other, failing), good_end = pair, 0
        nearer = range(other, 0, -1)
    else:
        (failing, other), good_end = pair, search.last
        nearer = range(other, search.last)
    is_neighbour = pair[1] - pair[0] == 1
    if _passes(search, other) and (is_neighbour or not found.confirmed):
        return _about_whole(search, found, broke=found.transition())
    good = next((index for index in nearer if _passes(search, index)), good_end)
    ends = sorted((good, failing))
    first = run_search(_search_of_passing(search, *ends))
    broke = _broke(search, first)
    if broke is None or broke.failure == failure:
        return _about_whole(search, first, broke=broke)
    if isinstance(search.outcome(other), NoAnswer):  # which says nothing
        found = _without_refusals(search, failure, judge)
    return _about_whole(
        search,
        found,
        status=max(broke.status, found.status, key=list(Answer).index),
        confirmed=broke.confirmed and found.confirmed,
        broke=broke,
        changed=found.transition(),
    )


def _search_first(
    search: BisectSearch, failure: Failure, judge: Callable[[Outcome, Match], Verdict]
) -> Bisection:
    """Return where a failure came. If another one only hid it for a few revisions,
    search on before these.
    """
    found = _search_presence(search.part(0, search.last), failure, judge)
    while True:
        hidden = _hidden_failure(search, _indices(search, found))
        if hidden is None:
            return found
        ends = (0, hidden)
        if search.failing_side is Side.OLD:
            ends = (hidden, search.last)
        earlier = _search_presence(search.part(*ends), failure, judge)
        if _indices(search, earlier) is None:
            return found
        found = earlier


def _hidden_failure(search: BisectSearch, pair: tuple[int, int] | None) -> int | None:
    """Return the nearest revision with this failure, within three of a change from
    another failure to this one, on the other failure's side.
    """
    if pair is None:
        return None
    step = -1 if search.failing_side is Side.NEW else 1
    other = pair[search.failing_side is Side.OLD]
    if not isinstance(search.outcome(other), Failed):
        return None
    for index in range(other + step, other + 4 * step, step):
        if not 0 < index < search.last or _passes(search, index):
            return None
        if search.verdict(search.outcome(index)) is Verdict.BAD:
            return index
    return None


def _without_refusals(
    search: BisectSearch, failure: Failure, judge: Callable[[Outcome, Match], Verdict]
) -> Bisection:
    """Return where a failure came as far as that is known without refusals, which say
    nothing. If other probes left a narrower range, search in it.
    """
    known = search.part(0, search.last)
    known.judge = _is_present
    known.weigh(failure)
    found = answer(known)
    ends = _indices(search, found)
    if found.confirmed or ends is None:
        return found
    narrower = _search_presence(search.part(*ends), failure, judge)
    pair = _indices(search, narrower)
    if pair is None:
        return found
    other = pair[search.failing_side is Side.OLD]
    if isinstance(search.outcome(other), NoAnswer):
        return found
    return narrower


def _search_of_passing(search: BisectSearch, first: int, last: int) -> BisectSearch:
    """Return the search for the change from passing to failing in any way."""
    part = search.part(first, last)
    part.request = replace(search.request, match=lambda _: any_failure)
    if search.range.is_of_commits:
        part.judge = verdict_on_passing
    return part


def _indices(search: BisectSearch, found: Bisection) -> tuple[int, int] | None:
    """Return the revisions of the old and the new state; None without an answer, and if
    the new end lacks a change.
    """
    if found.before is None or found.after is None or found.undone:
        return None
    names = [candidate.revision.name for candidate in search.range.candidates]
    return names.index(found.before.name), names.index(found.after.name)


def _passes(search: BisectSearch, index: int) -> bool:
    """Return whether a revision on the good side passes. One that shows this failure,
    too, is flaky; one that shows another failure does not pass.
    """
    passed = [
        isinstance(outcome, Passed)
        for outcome in search.range.candidates[index].outcomes
        if search.verdict(outcome) is not Verdict.BAD
    ]
    return bool(passed) and all(passed)


def _broke(search: BisectSearch, found: Bisection) -> Transition | None:
    """Return the change to or from passing, with the failure of its failing side."""
    pair = _indices(search, found)
    if pair is None:
        return None
    failing = search.range.candidates[pair[search.failing_side is Side.NEW]]
    if any(search.verdict(outcome) is Verdict.BAD for outcome in failing.outcomes):
        return found.transition(search.failure)
    failures = [outcome.failure for outcome in failing.outcomes if outcome.failure]
    return found.transition(failures[-1])


def _about_whole(search: BisectSearch, found: Bisection, **more: Any) -> Bisection:
    """Return an answer with the effort and the probes of all searches."""
    whole = answer(search)
    common: dict[str, Any] = {name: getattr(whole, name) for name in _OF_WHOLE}
    return replace(found, **common | more)


def search_change(search: BisectSearch, failure: Failure) -> Bisection:
    """Search where a failure came to a case that may fail in another way at the old
    end.
    """
    return _search_presence(search, failure, _is_present)


def _search_presence(
    search: BisectSearch, failure: Failure, judge: Callable[[Outcome, Match], Verdict]
) -> Bisection:
    search.judge, search.failure = judge, failure
    for index, side in ((0, Side.OLD), (search.last, Side.NEW)):
        name, outcome = search.name(index), search.outcome(index)
        if isinstance(outcome, NoAnswer):
            search.stopped = cannot_test(name, outcome)
        elif search.side(outcome) is not side:
            if search.verdict(outcome) is Verdict.BAD:
                has = "already has"
            else:
                has = "does not have"
            why = f"{name} {has} this failure: {failure.headline}"
            search.stopped = NoAnswer(Cause.NOT_FOUND, why)
        if search.stopped is not None:
            return answer(search)
    search.weigh(failure)
    return run_search(search)


def _is_present(outcome: Outcome, match: Match) -> Verdict:
    """Judge in a search for the first revision with the failure that `match`
    recognises, whatever was before it.
    """
    verdict = verdict_of(outcome, match)
    if verdict is Verdict.SKIP and isinstance(outcome, Failed) and not outcome.flaky:
        return Verdict.GOOD
    return verdict


def _is_present_in_commit(outcome: Outcome, match: Match) -> Verdict:
    """Judge so that a refusal counts as another failure: a stretch of refusals is
    halved, not probed commit by commit.
    """
    if is_refusal(outcome):
        return Verdict.GOOD
    return _is_present(outcome, match)
