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

from triage.bisect.result import (
    Answer,
    Bisection,
    LoggedProbe,
    Transition,
)
from triage.bisect.search import Found, Search, cannot_test
from triage.execution.judge import result_of
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
from triage.model.probe_result import ProbeResult

_HIDDEN = 3  # revisions behind a change of the failure that are looked at


def find_changes(search: Search) -> Bisection:
    """Search where this failure came or went, and where the case broke or was fixed.

    The answer is about this failure; it is a culprit if both changes are. A number has
    one change, because another failure hides it.
    """
    passing = passing_search(search).verified()
    if isinstance(passing, NoAnswer):
        return answer(search, passing)
    line, failure = search.line, passing.failure
    assert failure is not None
    if failure.is_number:
        number = replace(passing, match=_match(search, failure), judge=search.judge)
        return answer(number, number.run())
    if isinstance(line.outcome(search.bad_end), NoAnswer):
        found = passing.run()
        return answer(passing, found, broke=transition(passing, found))
    this = presence_search(search, failure)
    found = _before_windows(this, this.run())
    good = _nearest_pass(this, found)
    failing = found.after if this.bad_end == this.last else found.before
    other = found.before + found.after - failing
    is_pair = found.after - found.before == 1
    if good == other and (is_pair or not found.confirmed):
        return answer(this, found, broke=transition(this, found))
    first, last = sorted((good, failing))
    passing = replace(passing, first=first, last=last)
    broken = passing.run()
    broke = transition(passing, broken)
    if broke.failure == failure:
        return answer(passing, broken, broke=broke)
    if isinstance(line.outcome(other), NoAnswer):  # a refusal, which says nothing
        found = _without_refusals(this)
    changed = transition(this, found)
    return answer(
        this,
        found,
        status=max(broke.status, changed.status, key=list(Answer).index),
        confirmed=broke.confirmed and found.confirmed,
        broke=broke,
        changed=changed,
    )


def find_change(search: Search, failure: Failure) -> Bisection:
    """Search where a failure came to a case that may fail in another way at the old
    end.
    """
    this = replace(presence_search(search, failure), judge=_is_present)
    for index, has_failure in ((this.good_end, False), (this.bad_end, True)):
        name, outcome = this.line.name(index), this.line.outcome(index)
        if isinstance(outcome, NoAnswer):
            return answer(this, cannot_test(name, outcome))
        if (this.verdict(outcome) is Verdict.BAD) is not has_failure:
            has = "already has"
            if has_failure:
                has = "does not have"
            why = f"{name} {has} this failure: {failure.headline}"
            return answer(this, NoAnswer(Cause.NOT_FOUND, why))
    return answer(this, this.run())


def passing_search(search: Search) -> Search:
    """Return the search for the change from passing to failing in any way."""
    judge = verdict_of
    if search.line.range.is_of_commits:
        judge = verdict_on_passing
    return replace(search, match=any_failure, judge=judge)


def presence_search(search: Search, failure: Failure) -> Search:
    """Return the search for the first revision with a failure, whatever was before."""
    judge = _is_present
    if search.line.range.is_of_commits:
        judge = _is_present_in_commit
    match = _match(search, failure)
    return replace(search, failure=failure, match=match, judge=judge)


def _match(search: Search, failure: Failure) -> Match:
    return search.line.request.match(failure)


def _is_present(outcome: Outcome, match: Match) -> Verdict:
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


def _before_windows(search: Search, found: Found) -> Found:
    """If another failure only hid this one for a few revisions, search before these."""
    step = -1 if search.bad_end == search.last else 1
    while True:
        other = found.before if step < 0 else found.after
        if not isinstance(search.line.outcome(other), Failed):
            return found
        for index in range(other + step, other + (1 + _HIDDEN) * step, step):
            if not search.first < index < search.last:
                return found
            outcome = search.line.outcome(index)
            if isinstance(outcome, Passed):
                return found
            if search.verdict(outcome) is Verdict.BAD:
                break
        else:
            return found
        if step < 0:
            found = replace(search, last=index).run()
        else:
            found = replace(search, first=index).run()


def _without_refusals(search: Search) -> Found:
    """Return where a failure came as far as that is known without refusals, which say
    nothing. If other probes left a narrower range, search in it.
    """
    known = replace(search, judge=_is_present)
    found = known.found(known.belief())
    narrower = replace(search, first=found.before, last=found.after).run()
    other = narrower.before if search.bad_end == search.last else narrower.after
    if isinstance(search.line.outcome(other), NoAnswer):
        return found
    return narrower


def _nearest_pass(search: Search, found: Found) -> int:
    """Return the revision that passes, nearest to the pair on its good side. One that
    shows this failure, too, is flaky; one that shows another failure does not pass.
    """
    nearer = range(found.before, search.first, -1)
    if search.bad_end == search.first:
        nearer = range(found.after, search.last)
    for index in nearer:
        passed = [
            isinstance(outcome, Passed)
            for outcome in search.line.outcomes(index)
            if search.verdict(outcome) is not Verdict.BAD
        ]
        if passed and all(passed):
            return index
    return search.good_end


def transition(search: Search, found: Found) -> Transition:
    """Return a change with the failure of its failing side."""
    line, failure = search.line, search.failure
    assert failure is not None
    match = _match(search, failure)
    failing = found.after if search.bad_end == search.last else found.before
    outcomes = line.outcomes(failing)
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    is_this = any(verdict_of(one, match) is Verdict.BAD for one in outcomes)
    if failures and not is_this:
        failure = failures[-1]
    return Transition(
        line.revision(found.before),
        line.revision(found.after),
        failure,
        found.confirmed,
        line.suspects(found.chances, search.clues),
    )


# The answer


def answer(search: Search, found: Found | NoAnswer, **more: Any) -> Bisection:
    """Report what a search found, or why there is nothing to search, with all probes
    of its line.
    """
    line, failure = search.line, search.failure
    why = found if isinstance(found, NoAnswer) else found.older
    untestable, others = _without_verdict(search, found)
    effort = Bisection(
        case=line.request.case.name,
        kind=search.kind,
        status=Answer.INCONCLUSIVE,
        failure=failure,
        probes=len(line.log),
        rounds=line.rounds,
        cached=sum(probe.cached for _, probe in line.log),
        seconds=round(time.monotonic() - line.started, 1),
        log=tuple(_logged(search)),
        untestable=tuple(untestable),
        other_failures=tuple(others),
        unanswered=line.stopped or why,
        fixed=search.fixed,
    )
    if isinstance(found, NoAnswer):
        return replace(effort, **more)
    return effort.about(transition(search, found), **more)


def _logged(search: Search) -> Iterator[LoggedProbe]:
    """Yield the probes of the line, in order, with their verdicts."""
    match = _match_of_answer(search)
    for index, probe in search.line.log:
        revision, failure = search.line.revision(index), probe.outcome.failure
        yield LoggedProbe(
            revision.name,
            revision.commit,
            verdict_of(probe.outcome, match),
            failure.signature if failure else None,
            probe.outcome.reason,
            probe.cached,
            round(probe.measured.seconds, 3),
        )


def _match_of_answer(search: Search) -> Match:
    if search.failure:
        return _match(search, search.failure)
    return any_failure


def _without_verdict(
    search: Search, found: Found | NoAnswer
) -> tuple[list[ProbeResult], list[ProbeResult]]:
    """Return the results of revisions that cannot be tested, and of those that fail in
    another way.
    """
    line, match = search.line, _match_of_answer(search)
    between = range(0)
    if isinstance(found, Found):
        between = range(found.before + 1, found.after)
    untestable, others = [], []
    for index, candidate in enumerate(line.range.candidates):
        probes = line.probes[index][-1:]
        if candidate.untestable is not None and index in between:
            why = NoAnswer(Cause.TOOLCHAIN, candidate.untestable)
            probes = [line.without_run(index, why)]
        for result in map(result_of, probes):
            if result.untestable:
                untestable.append(result)
            elif result.failure and not match(result.failure):
                others.append(result)
    return untestable, others
