"""What stored probes say of a case, without another compile: how it ends on each
release, and the ranges in which a failure came and went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from triage.bisect.changes import transition
from triage.bisect.line import Candidate, Line
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer, Bisection, BisectKind, Transition
from triage.bisect.search import Search
from triage.execution.engine import Engine
from triage.execution.match import same_signature
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failure, Passed
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True, slots=True)
class KnownReleases:
    """Neighbouring releases on which a case ended alike. outcome: passed, failed,
    untestable, or not tried.
    """

    outcome: str
    first: Revision
    last: Revision


def known_releases(
    engine: Engine, case: Case, others: Sequence[ToolchainRef]
) -> tuple[KnownReleases, ...]:
    """Return how a case ends on all releases and on other toolchains. Neighbours that
    ended alike are joined, unless a release may lie between two.
    """
    line, are_all = _stored_line(engine, case, others)
    releases: list[KnownReleases] = []
    for index, candidate in enumerate(line.candidates):
        outcomes = line.outcomes(index)
        status = outcomes[-1].plain_status if outcomes else "not tried"
        if are_all and releases and releases[-1].outcome == status:
            releases[-1] = replace(releases[-1], last=candidate.revision)
        else:
            entry = KnownReleases(status, candidate.revision, candidate.revision)
            releases.append(entry)
    return tuple(releases)


def known_range(
    engine: Engine,
    case: Case,
    others: Sequence[ToolchainRef],
    failure: Failure,
    failing: str,
) -> Bisection | None:
    """Return what is known of a failure for a bisect that was not finished; None if the
    case passes nowhere. failing: the name of a revision with the failure.
    """
    line, _ = _stored_line(engine, case, others)
    names = [line.name(index) for index in range(len(line))]
    if failing not in names:
        return None
    bad = names.index(failing)
    match = same_signature(failure)
    search = Search(line, bad, bad, BisectKind.REGRESSION, match, failure=failure)
    older = [index for index in line.indices_of(Passed) if index < bad]
    newer = [index for index in line.indices_of(Passed) if index > bad]
    answer = Bisection(case.name, search.kind, Answer.SUSPECTS, failure=failure)
    fixed = None
    if newer:
        fix = replace(search, last=newer[0], kind=BisectKind.FIX)
        fixed = _known_change(fix)
    if older:
        broke = _known_change(replace(search, first=older[-1]))
        return answer.about(broke, broke=broke, fixed=fixed)
    if fixed:
        return answer.about(fixed, kind=BisectKind.FIX, broke=fixed)
    return None


def _stored_line(
    engine: Engine, case: Case, others: Sequence[ToolchainRef]
) -> tuple[Line, bool]:
    """Return all releases and other toolchains with the stored probes of a case, and
    whether there is no other release.
    """
    registry = engine.registry
    try:
        releases, are_all = registry.listed_releases(case.compiler), True
    except (BadInput, EnvironmentFailure):  # it has none, or there is no network
        releases, are_all = registry.installed_releases(case.compiler), False
    by_name = {ref.revision.name: ref for ref in (*releases, *others)}
    refs = [by_name[name] for name in sorted(by_name, key=Version)]
    candidates = [Candidate(ref.revision, ref) for ref in refs]
    line = Line(BisectRequest(engine, case), candidates)
    for index, ref in enumerate(refs):
        probe = engine.recall(ProbeJob(case, ref))
        if probe:
            line.probes[index].append(probe)
    return line, are_all


def _known_change(search: Search) -> Transition:
    return transition(search, search.result(search.belief()))
