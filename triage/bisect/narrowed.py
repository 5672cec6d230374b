"""The ranges in which a failure came and went, as far as tried releases show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from triage.bisect.candidates import BisectRange, Candidate
from triage.bisect.changes import transition
from triage.bisect.plan import whole_search
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer, Bisection, BisectKind, Transition
from triage.bisect.search import Search
from triage.execution.engine import Engine
from triage.execution.match import same_signature
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failure, Passed, Probe
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True)
class TriedReleases:
    """The stored probes of a case, None if it was not tried, oldest release first."""

    refs: Sequence[ToolchainRef]
    probes: Sequence[Probe | None]
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
        by_name = {ref.revision.name: ref for ref in (*releases, *others)}
        refs = [by_name[name] for name in sorted(by_name, key=Version)]
        probes = [engine.recall(ProbeJob(case, ref)) for ref in refs]
        return cls(refs, probes, are_all)


def narrowed(
    engine: Engine, case: Case, tried: TriedReleases, failure: Failure, failing: str
) -> Bisection | None:
    """Return what is known of a failure for a bisect that was not finished; None if the
    case passes nowhere. failing: the name of a revision with the failure.
    """
    names = [ref.revision.name for ref in tried.refs]
    if failing not in names:
        return None
    candidates = tuple(Candidate(ref.revision, ref) for ref in tried.refs)
    whole = whole_search(BisectRequest(engine, case), BisectRange(candidates))
    whole = replace(whole, match=same_signature(failure), failure=failure)
    line = whole.line
    for index, probe in enumerate(tried.probes):
        line.probes[index] += filter(None, [probe])
    middle = names.index(failing)
    broke = fixed = None
    for index in line.seen(Passed):
        if index < middle:
            broke = _known_change(replace(whole, first=index, last=middle))
        elif fixed is None:
            fix = replace(whole, first=middle, last=index, kind=BisectKind.FIX)
            fixed = _known_change(fix)
    if broke:
        answer = Bisection(case.name, BisectKind.REGRESSION, Answer.SUSPECTS)
        return answer.about(broke, failure=failure, broke=broke, fixed=fixed)
    if fixed:
        answer = Bisection(case.name, BisectKind.FIX, Answer.SUSPECTS)
        return answer.about(fixed, failure=failure, broke=fixed)
    return None


def _known_change(search: Search) -> Transition:
    """Return what the probes of a search say, without another one."""
    return transition(search, search.found(search.belief()))
