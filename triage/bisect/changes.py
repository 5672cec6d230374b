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
from triage.bisect.result import Answer, Bisection, LoggedProbe
from triage.bisect.search import FoundPair, Search
from triage.execution.compare import Match, verdict_of
from triage.execution.judge import result_of
from triage.model.outcome import (
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

    Args:
        search: For the change from passing to failing, or back.
    """
    passing = search.verified()
    if isinstance(passing, NoAnswer):
        return answer(search, passing)
    line = search.line
    failure = passing.failure
    assert failure is not None
    if failure.is_of_metric:
        number = passing.for_failure(failure)
        return answer(number, number.run())
    if isinstance(line.outcome(search.bad_end), NoAnswer):
        pair = passing.run()
        return answer(passing, pair, broke=pair.change)
    presence = passing.for_failure(failure, _presence_verdict)
    pair = presence.run()
    good = _nearest_pass(presence, pair)
    other, failing = search.kind.in_order(pair.before, pair.after)
    is_adjacent = pair.after - pair.before == 1
    if good == other and (is_adjacent or not pair.change.confirmed):
        return answer(presence, pair, broke=pair.change)
    first, last = sorted((good, failing))
    passing = replace(passing, first=first, last=last)
    broken = passing.run()
    broke = broken.change
    if broke.failure == failure:
        return answer(passing, broken, broke=broke)
    changed = pair.change
    return answer(
        presence,
        pair,
        status=max(broke.status, changed.status, key=list(Answer).index),
        confirmed=broke.confirmed and changed.confirmed,
        broke=broke,
        changed=changed,
    )


def find_change(search: Search, failure: Failure) -> Bisection:
    """Search where a failure came to a case that may fail in another way at the old
    end.
    """
    presence = search.for_failure(failure, _presence_verdict).verified()
    if isinstance(presence, NoAnswer):
        return answer(search, presence)
    pair = presence.run()
    return answer(presence, pair, changed=pair.change)


def _presence_verdict(outcome: Outcome, match: Match) -> Verdict:
    verdict = verdict_of(outcome, match)
    if verdict is Verdict.SKIP and isinstance(outcome, Failed) and not outcome.flaky:
        return Verdict.GOOD
    return verdict


def _nearest_pass(search: Search, pair: FoundPair) -> int:
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


def answer(search: Search, conclusion: FoundPair | NoAnswer, **more: Any) -> Bisection:
    """Report what a search found, or why there is nothing to search, with all probes
    of its line.
    """
    line = search.line
    match = search.match
    results = [result_of(line.probes[index][-1]) for index in line.last_outcomes]
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
    return effort.about(conclusion.change, **more)


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
