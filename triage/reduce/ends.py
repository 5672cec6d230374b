"""What a reduction starts from: the failure on one toolchain, and none on the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from triage.model.case import Case
from triage.model.failure import Failure
from triage.model.outcome import Cause, Compiled, Failed, Outcome, Untestable
from triage.model.probe import Probe
from triage.probe.judge import Match
from triage.probe.workbench import Job, Workbench
from triage.reduce.result import NotReproducible
from triage.toolchains.shed import Place

_MEASURE = 8  # compiles of a failure that comes and goes, to learn how often it comes
_SURE = 0.99  # that a program which fails at that rate is seen to
_MOST = 12  # compiles of one draft


@dataclass(frozen=True, slots=True)
class Baseline:
    """The failure to keep. seconds: how long the compile took that failed; repeats: compiles to make of a draft before it
    is believed to pass.
    """

    failure: Failure
    match: Match
    seconds: float
    repeats: int
    probes: tuple[Probe, ...]
    notes: tuple[str, ...] = ()


def baseline(
    bench: Workbench, case: Case, bad: Place, good: Place | None, match: Callable[[Failure], Match], repeats: int | None
) -> Baseline | NotReproducible:
    """Probe the case on both toolchains. repeats: None to choose by how often the failure comes."""
    probes = {
        probe.revision.name: probe for probe in bench.probe_all([Job(case, place) for place in (bad, good) if place])
    }
    failing = probes[bad.revision.name]
    tried = tuple(probes.values())
    match failing.outcome:
        case Compiled():
            return NotReproducible(case, f"it compiles on {bad.revision.name}; there is nothing to reduce", tried)
        case Untestable(cause=cause, reason=reason):
            return NotReproducible(case, f"untestable on {bad.revision.name}: {reason}", tried, cause)
        case Failed(failure=failure, flaky=flaky):
            chased = match(failure)
    if good and (reason := _why_not_good(probes[good.revision.name].outcome, good)):
        return NotReproducible(case, reason, tried)
    if not flaky:
        return Baseline(failure, chased, failing.measured.seconds, repeats or 1, tried)
    return _flaky(bench, case, bad, chased, failing, failure, repeats, tried)


def _why_not_good(outcome: Outcome, good: Place) -> str | None:
    match outcome:
        case Compiled():
            return None
        case Failed(failure=failure):
            return f"it fails on {good.revision.name} as well ({failure.failure_class}), which --good says it does not"
        case Untestable(reason=reason):
            return f"untestable on {good.revision.name}, given as --good: {reason}"


def _flaky(
    bench: Workbench,
    case: Case,
    bad: Place,
    chased: Match,
    failing: Probe,
    failure: Failure,
    repeats: int | None,
    tried: tuple[Probe, ...],
) -> Baseline | NotReproducible:
    """Compile again and again to learn how often the failure comes, and from that how often a draft has to be tried."""
    again = list(bench.probe_all([Job(case, bad, fresh=True) for _ in range(_MEASURE)], "measure how often it fails"))
    seen = sum(
        isinstance(one.outcome, Failed) and any(map(chased, (one.outcome.failure, *one.outcome.others))) for one in again
    )
    if not seen:
        reason = f"it failed once on {bad.revision.name} and in none of {_MEASURE} further compiles"
        return NotReproducible(case, reason, (*tried, *again), Cause.ENVIRONMENT)
    rate = seen / _MEASURE
    needed = 1 if rate == 1 else min(_MOST, math.ceil(math.log(1 - _SURE) / math.log(1 - rate)))
    note = f"it fails in {seen} of {_MEASURE} compiles; a program counts as passing after {repeats or needed}"
    return Baseline(failure, chased, failing.measured.seconds, repeats or needed, tried, (note,))
