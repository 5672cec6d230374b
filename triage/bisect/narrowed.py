"""The ranges in which a failure came and went, as far as tried releases show them."""

from __future__ import annotations

from triage.bisect.result import Answer, Bisection, BisectKind, Suspect, Transition
from triage.execution.match import same_signature
from triage.execution.results import TriedReleases
from triage.model.case import Case
from triage.model.outcome import Failed, Failure, Passed
from triage.model.revision import Revision


def narrowed(
    case: Case, tried: TriedReleases, failure: Failure, failing: Revision
) -> Bisection | None:
    """Return what is known of a failure for a bisect that was not finished; None if the
    case passes nowhere.
    """
    names = [revision.name for revision in tried.revisions]
    if failing.name not in names:
        return None
    is_same = same_signature(failure)
    middle = names.index(failing.name)
    passing = []
    bad = [middle]
    for index, outcome in enumerate(tried.outcomes):
        if isinstance(outcome, Passed):
            passing.append(index)
        if isinstance(outcome, Failed) and is_same(outcome.failure):
            bad.append(index)
    good = max((index for index in passing if index < middle), default=None)
    again = min((index for index in passing if index > middle), default=None)
    broke = None
    fixed = None
    if good is not None:
        first = min(index for index in bad if index > good)
        broke = _change(tried, good, first, failure)
    if again is not None:
        last = max(index for index in bad if index < again)
        fixed = _change(tried, last, again, failure)
    change = broke or fixed
    if change is None:
        return None
    if broke is None:
        answer = Bisection(case.name, BisectKind.FIX, Answer.SUSPECTS)
        return answer.about(change, failure=failure, broke=change)
    answer = Bisection(case.name, BisectKind.REGRESSION, Answer.SUSPECTS)
    return answer.about(change, failure=failure, broke=change, fixed=fixed)


def _change(tried: TriedReleases, low: int, high: int, failure: Failure) -> Transition:
    before, *changed = tried.revisions[low : high + 1]
    share = 1 / len(changed)
    suspects = tuple(Suspect.of(revision, share) for revision in changed)
    return Transition(before, changed[-1], failure, confirmed=False, suspects=suspects)
