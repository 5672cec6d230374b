"""Look for a failure on one toolchain after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Failed, Outcome, Probe
from triage.recipes.expectations import matches
from triage.toolchains.registry import ToolchainRef


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
        names = [ref.revision.name for ref in refs[start : start + engine.jobs]]
        batch = [ProbeJob(case, ref) for ref in refs[start : start + engine.jobs]]
        probes = {probe.revision.name: probe for probe in engine.probe_all(batch, what)}
        for name in names:
            if is_wanted(probes[name].outcome):
                return probes[name]
    return None
