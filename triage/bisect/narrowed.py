"""What the releases that were tried say of a failure, without a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.bisect.result import Answer, Bisection, BisectKind, Suspect, Transition
from triage.execution.match import same_signature
from triage.execution.results import TriedReleases
from triage.model.case import Case
from triage.model.outcome import Failed, Failure, Passed
from triage.model.revision import Revision


def narrowed(
    case: Case, tried: TriedReleases, failure: Failure, failing: Revision
) -> Bisection | None:
    """Return the narrowest ranges in which a failure came and went, for a bisect that
    was not finished; None if the case passes nowhere.
    """
    names = [revision.name for revision in tried.revisions]
    if failing.name not in names:
        return None
    place = names.index(failing.name)
    broke = _nearest_pass(tried, failure, range(place, -1, -1))
    fixed = _nearest_pass(tried, failure, range(place, len(names)))
    change = broke or fixed
    if change is None:
        return None
    kind = BisectKind.REGRESSION if broke else BisectKind.FIX
    answer = Bisection(case.name, kind, Answer.SUSPECTS, failure=failure)
    return answer.about(change, broke=broke, fixed=fixed if broke else None)


def _nearest_pass(
    tried: TriedReleases, failure: Failure, places: Sequence[int]
) -> Transition | None:
    """Return the change between the first of several releases that passes and the last
    one before it with the failure; None if none passes.
    """
    last = places[0]
    for place in places:
        outcome = tried.outcomes[place]
        if isinstance(outcome, Failed) and same_signature(failure)(outcome.failure):
            last = place
        if isinstance(outcome, Passed):
            low, high = sorted((last, place))
            before, *changed = tried.revisions[low : high + 1]
            suspects = [
                replace(Suspect.of(revision), probability=1 / len(changed))
                for revision in changed
            ]
            return Transition(
                before, changed[-1], failure, confirmed=False, suspects=tuple(suspects)
            )
    return None
