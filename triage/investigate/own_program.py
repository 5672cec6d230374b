"""Look for a failure on one toolchain after another, and say how a case ends on all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from triage.bisect.narrowed import TriedReleases
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Failed, Outcome, Probe
from triage.model.revision import Revision
from triage.recipes.expectations import matches
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
    tried = TriedReleases.recall(engine, case, others)
    releases: list[KnownReleases] = []
    for ref, probe in zip(tried.refs, tried.probes, strict=True):
        revision = ref.revision
        status = probe.outcome.plain_status if probe else "not tried"
        if tried.are_all and releases and releases[-1].outcome == status:
            releases[-1] = replace(releases[-1], last=revision)
        else:
            releases.append(KnownReleases(status, revision, revision))
    return tuple(releases)


def fails_each_time(outcome: Outcome) -> bool:
    """Return whether a case fails, and not only sometimes."""
    return isinstance(outcome, Failed) and not outcome.flaky


def ends_as_expected(case: Case, outcome: Outcome) -> bool:
    """Return whether a case ends each time, and as its text or recipe says: with a
    failure, or with an error for which it cannot be tested.
    """
    if outcome.failure is None or outcome.flaky:
        return False
    failures = [outcome.failure]
    if isinstance(outcome, Failed):
        failures += outcome.others
    wanted = [matches(item, failure) for item in case.expect for failure in failures]
    return any(wanted) or not case.expect


def first_that(
    is_wanted: Callable[[Outcome], bool],
    engine: Engine,
    case: Case,
    refs: Sequence[ToolchainRef],
    what: str,
) -> Probe | None:
    """Return the probe of the first of several toolchains whose outcome is wanted, also
    if it alone has it. what: progress.
    """
    for start in range(0, len(refs), engine.jobs):
        batch = [ProbeJob(case, ref) for ref in refs[start : start + engine.jobs]]
        probes = {probe.revision.name: probe for probe in engine.probe_all(batch, what)}
        for job in batch:
            probe = probes[job.ref.revision.name]
            if is_wanted(probe.outcome):
                return probe
    return None
