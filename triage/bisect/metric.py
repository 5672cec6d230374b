"""Bisect a number instead of a failure: compile time, memory, artifact size."""

from __future__ import annotations

import math

from triage.execution.metrics import TIMES, Metric, MetricThreshold, value_of
from triage.execution.runner import CaseProber, ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Probe, Untestable
from triage.toolchains.registry import ToolchainRef

_APART = 1.25  # the worse end must be this many times the better one ...
_APART_EXACT = 1.01  # ... or this, of what does not hang on the machine


def threshold_between(prober: CaseProber, case: Case, good: ToolchainRef, bad: ToolchainRef, metric: Metric) -> MetricThreshold:
    """Return the threshold halfway, as a factor, between two ends, each measured several times.

    BadInput when an end does not compile, or when the ends are too much alike to tell what lies between them;
    EnvironmentFailure when the compiler of an end cannot be had.
    """
    values: list[float] = []
    for place in (good, bad):
        probes = [probe for turn in range(TIMES) for probe in prober.probe_all([ProbeJob(case, place, turn > 0)], metric.value)]
        known = [value for probe in probes if (value := value_of(probe, metric)) is not None]
        if not known:
            raise _no_value(probes[-1], metric)
        values.append(min(known))
    low, high = values
    apart = _APART_EXACT if metric.exact else _APART
    if low == 0 < high and metric.exact:
        return MetricThreshold(metric, high / 2)  # nothing spilled, and then something did
    if low <= 0 or high < apart * low:
        raise BadInput(
            f"{metric} is {low:.4g} on {good.revision.name} and {high:.4g} on {bad.revision.name}: "
            f"less than {apart} times as much, too little to bisect"
        )
    return MetricThreshold(metric, math.sqrt(low * high))


def _no_value(probe: Probe, metric: Metric) -> BadInput | EnvironmentFailure:
    told = f"{probe.case.name} has no {metric} on {probe.revision.name}"
    match probe.outcome:
        case Untestable(cause=Cause.ENVIRONMENT | Cause.TOOLCHAIN, reason=reason):
            return EnvironmentFailure(f"{told}: {reason}")
        case Untestable(reason=reason):
            return BadInput(f"{told}: {reason}")
        case _:
            return BadInput(f"{told}: it does not compile there")
