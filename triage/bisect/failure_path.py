"""Follow a failure that changed on its way: where it broke in another form, and where it took the present one."""

from __future__ import annotations

from dataclasses import replace

from triage.bisect.candidates import ReleaseCandidates
from triage.bisect.ends import add_effort, is_failing, part_of
from triage.bisect.result import Answer, Bisection, Side
from triage.bisect.search import BisectSearch, answer, run_search
from triage.execution.judge import Match, any_failure
from triage.model.outcome import Failed, Failure, Outcome, Untestable, Verdict


def with_path(search: BisectSearch, bisection: Bisection) -> Bisection:
    """Add where the case broke to the answer of a regression.

    Where releases with other failures lie between the last that compiles and the first with the present failure, two
    changes are searched: from compiling to failing in any way, and from another failure to the present one.
    """
    broke = bisection.transition()
    if broke is None or bisection.failure is None or bisection.undone:
        return bisection
    hidden = _hidden(search, bisection)
    if not hidden:
        return replace(bisection, broke=broke)
    low, high = _indices(search, bisection)
    first = replace(part_of(search, low, hidden[0]), match=lambda _: any_failure)
    broke = run_search(first).transition()
    add_effort(search, first)
    second = replace(part_of(search, hidden[-1], high), judge=present_or_other)
    second.failure = bisection.failure
    second.rebuild()  # the check of the ends would reject its old end, which fails
    present = run_search(second)
    add_effort(search, second)
    changed = present.transition()
    effort = replace(bisection, probes=search.probes, rounds=search.rounds, cached=search.cached)
    if broke is None or changed is None:
        return effort
    weakest = broke if broke.answer is not Answer.CULPRIT else changed
    return replace(
        effort,
        status=weakest.answer,
        before=changed.before,
        after=changed.after,
        suspects=changed.suspects,
        confirmed=broke.confirmed and changed.confirmed,
        broke=broke,
        changed=changed,
    )


def search_change(search: BisectSearch, failure: Failure) -> Bisection:
    """Search where a failure came to a case that may fail in another way at the old end."""
    search.judge, search.failure, search.compare = _present_or_not, failure, None
    search.ask([index for index in (0, search.last) if index not in search.outcomes])
    for index, side in ((0, Side.OLD), (search.last, Side.NEW)):
        name, outcome = search.range.revision(index).name, search.outcomes[index][-1]
        if isinstance(outcome, Untestable):
            search.reason, search.cause = f"{name} cannot be tested: {outcome.reason}", outcome.cause
        elif search.side(outcome) is not side:
            has = "already has" if side is Side.OLD else "does not have"
            search.reason = f"{name} {has} this failure: {failure.headline}"
        if search.reason is not None:
            return answer(search)
    search.rebuild()  # the check of the ends would reject an old end that fails
    return run_search(search)


def _present_or_not(outcome: Outcome, match: Match) -> Verdict:
    """The verdict of a search for the first revision with the failure that `match` recognises, whatever was before it."""
    if isinstance(outcome, Untestable) or (isinstance(outcome, Failed) and outcome.flaky):
        return Verdict.SKIP
    return present_or_other(outcome, match) if isinstance(outcome, Failed) else Verdict.GOOD


def present_or_other(outcome: Outcome, match: Match) -> Verdict:
    """The verdict of a search for the change from another failure to the one that `match` recognises."""
    if not isinstance(outcome, Failed) or outcome.flaky:
        return Verdict.SKIP
    return Verdict.BAD if any(map(match, (outcome.failure, *outcome.others))) else Verdict.GOOD


def _hidden(search: BisectSearch, bisection: Bisection) -> list[int]:
    """The releases between both ends of the answer that fail in another way."""
    if not isinstance(search.range, ReleaseCandidates):
        return []
    low, high = _indices(search, bisection)
    return [index for index in range(low + 1, high) if index in search.outcomes and is_failing(search.outcomes[index][-1])]


def _indices(search: BisectSearch, bisection: Bisection) -> tuple[int, int]:
    names = [search.range.revision(index).name for index in range(len(search.range))]
    assert bisection.before
    assert bisection.after
    return names.index(bisection.before.name), names.index(bisection.after.name)
