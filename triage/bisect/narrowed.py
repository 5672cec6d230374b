"""The ranges in which a failure came and went, as far as tried releases show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

from triage.bisect.result import Answer, Bisection, BisectKind, Suspect, Transition
from triage.execution.engine import Engine
from triage.execution.match import same_signature
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failed, Failure, Outcome, Passed
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True)
class TriedReleases:
    """The outcomes of a case, None if it was not tried, oldest release first."""

    revisions: Sequence[Revision]
    outcomes: Sequence[Outcome | None]
    are_all: bool
    """Whether there is no other release."""

    @classmethod
    def recall(
        cls, engine: Engine, case: Case, others: Sequence[ToolchainRef]
    ) -> TriedReleases:
        """Look up what is known on all releases and on other toolchains."""
        releases, are_all = engine.registry.installed_releases(case.compiler), False
        try:
            releases = engine.registry.listed_releases(case.compiler)
            are_all = True
        except (BadInput, EnvironmentFailure):  # it has none, or there is no network
            pass
        refs = {ref.revision.name: ref for ref in (*releases, *others)}
        names = sorted(refs, key=Version)
        probes = [engine.recall(ProbeJob(case, refs[name])) for name in names]
        revisions = [refs[name].revision for name in names]
        outcomes = [probe.outcome if probe else None for probe in probes]
        return cls(revisions, outcomes, are_all)


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
