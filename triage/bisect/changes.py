"""Where a case broke, and where its failure came if that is another change.

Where another failure stands between passing and failing, there are two changes: the one
from passing to failing in any way, which `git bisect run` names, and the one that
brought this failure. For a fix they are the one to passing, and the one with which this
failure went. This failure is searched first: if the revision next to it passes, there
is only one change.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from triage.bisect.line import Line
from triage.bisect.result import Answer, Bisection, LoggedProbe, Transition
from triage.bisect.search import Search, SearchResult, cannot_test
from triage.execution.judge import result_of
from triage.execution.match import Match, any_failure, verdict_of, verdict_on_passing
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Verdict,
)


def find_changes(search: Search) -> Bisection:
    """Search where this failure came or went, and where the case broke or was fixed.

    The answer is about this failure; it is a culprit if both changes are. A number has
    one change, because another failure hides it.
    """
    passing = passing_search(search).verified()
    if isinstance(passing, NoAnswer):
        return answer(search, passing)
    line = search.line
    failure = passing.failure
    assert failure is not None
    if failure.is_of_metric:
        number = replace(passing, match=_match(search, failure), judge=search.judge)
        return answer(number, number.run())
    if isinstance(line.outcome(search.bad_end), NoAnswer):
        pair = passing.run()
        return answer(passing, pair, broke=transition(passing, pair))
    presence = presence_search(search, failure)
    pair = presence.run()
    good = _nearest_pass(presence, pair)
    other, failing = search.kind.in_order(pair.before, pair.after)
    is_adjacent = pair.after - pair.before == 1
    if good == other and (is_adjacent or not pair.confirmed):
        return answer(presence, pair, broke=transition(presence, pair))
    first, last = sorted((good, failing))
    passing = replace(passing, first=first, last=last)
    broken = passing.run()
    broke = transition(passing, broken)
    if broke.failure == failure:
        return answer(passing, broken, broke=broke)
    changed = transition(presence, pair)
    return answer(
        presence,
        pair,
        status=max(broke.status, changed.status, key=list(Answer).index),
        confirmed=broke.confirmed and pair.confirmed,
        broke=broke,
        changed=changed,
    )


def find_change(search: Search, failure: Failure) -> Bisection:
    """Search where a failure came to a case that may fail in another way at the old
    end.
    """
    presence = presence_search(search, failure)
    for index, wrong in (
        (presence.good_end, "already has"),
        (presence.bad_end, "lacks"),
    ):
        name = presence.line.name(index)
        outcome = presence.line.outcome(index)
        if isinstance(outcome, NoAnswer):
            return answer(presence, cannot_test(name, outcome))
        has_failure = presence.verdict(outcome) is Verdict.BAD
        if has_failure is (index == presence.good_end):
            why = f"{name} {wrong} this failure: {failure.headline}"
            return answer(presence, NoAnswer(Cause.NOT_FOUND, why))
    pair = presence.run()
    return answer(presence, pair, changed=transition(presence, pair))


def passing_search(search: Search) -> Search:
    """Return the search for the change from passing to failing in any way."""
    judge = verdict_of
    if search.line.is_of_commits:
        judge = verdict_on_passing
    return replace(search, match=any_failure, judge=judge)


def presence_search(search: Search, failure: Failure) -> Search:
    """Return the search for the first revision with a failure, whatever was before."""
    match = _match(search, failure)
    return replace(search, failure=failure, match=match, judge=_presence_verdict)


def _match(search: Search, failure: Failure) -> Match:
    return search.line.request.match_for(failure)


def _presence_verdict(outcome: Outcome, match: Match) -> Verdict:
    verdict = verdict_of(outcome, match)
    if verdict is Verdict.SKIP and isinstance(outcome, Failed) and not outcome.flaky:
        return Verdict.GOOD
    return verdict


def _nearest_pass(search: Search, pair: SearchResult) -> int:
    """Return the revision that passes, nearest to the pair on its good side. One that
    shows this failure, too, is flaky; one that shows another failure does not pass.
    """
    nearer = range(pair.before, search.first, -1)
    if search.bad_end == search.first:
        nearer = range(pair.after, search.last)
    for index in nearer:
        passed = [
            isinstance(outcome, Passed)
            for outcome in search.line.outcomes(index)
            if search.verdict(outcome) is not Verdict.BAD
        ]
        if passed and all(passed):
            return index
    return search.good_end


def transition(search: Search, pair: SearchResult) -> Transition:
    """Return a change with the failure of its failing side."""
    line = search.line
    failure = search.failure
    assert failure is not None
    match = _match(search, failure)
    _, failing = search.kind.in_order(pair.before, pair.after)
    outcomes = line.outcomes(failing)
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    is_this = any(verdict_of(outcome, match) is Verdict.BAD for outcome in outcomes)
    if failures and not is_this:
        failure = failures[-1]
    return Transition(
        line.revision(pair.before),
        line.revision(pair.after),
        failure,
        pair.confirmed,
        line.suspects(pair.chances, search.clues),
    )


# The answer


def answer(
    search: Search, conclusion: SearchResult | NoAnswer, **more: Any
) -> Bisection:
    """Report what a search found, or why there is nothing to search, with all probes
    of its line.
    """
    line = search.line
    match: Match = any_failure
    if search.failure:
        match = _match(search, search.failure)
    results = [
        result_of(line.probes[index][-1])
        for index in range(len(line))
        if line.probes[index]
    ]
    others = [
        result
        for result in results
        if result.failure and not (result.untestable or match(result.failure))
    ]
    why = conclusion if isinstance(conclusion, NoAnswer) else conclusion.older
    effort = Bisection(
        case=line.request.case.name,
        kind=search.kind,
        status=Answer.INCONCLUSIVE,
        failure=search.failure,
        probes=len(line.log),
        rounds=line.rounds,
        cached=sum(probe.cached for _, probe in line.log),
        seconds=round(time.monotonic() - line.started, 1),
        log=tuple(_logged_probes(line, match)),
        untestable=tuple(result for result in results if result.untestable),
        other_failures=tuple(others),
        unanswered=line.stopped or why,
        fixed=search.fixed,
    )
    if isinstance(conclusion, NoAnswer):
        return replace(effort, **more)
    return effort.about(transition(search, conclusion), **more)


def _logged_probes(line: Line, match: Match) -> Iterator[LoggedProbe]:
    """Yield the probes of the line, in order, with their verdicts."""
    for index, probe in line.log:
        revision = line.revision(index)
        failure = probe.outcome.failure
        yield LoggedProbe(
            revision.name,
            revision.commit,
            verdict_of(probe.outcome, match),
            failure.signature if failure else None,
            probe.outcome.reason,
            probe.cached,
            round(probe.measured.seconds, 3),
        )
