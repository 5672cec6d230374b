"""Bisect a number instead of a failure: memory, artifact size."""

from __future__ import annotations

import math
from dataclasses import replace

from triage.execution.engine import Engine
from triage.execution.judge import TIMES, Metric, MetricThreshold, value_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Compiled, Probe, Untestable
from triage.toolchains.registry import ToolchainRef

_LEAST_RATIO = 1.25  # of the worse end to the better one
_LEAST_EXACT_RATIO = 1.01  # the same for a number that does not depend on the machine


def threshold_between(
    prober: Engine, case: Case, good: ToolchainRef, bad: ToolchainRef, metric: Metric, threshold: float | None = None
) -> MetricThreshold:
    """Measure both ends several times. Whether more or less is worse is what they show.

    threshold: beyond which a revision is bad (default: the geometric mean of both ends).

    Raises:
        BadInput: An end does not compile, or the numbers of the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    values: list[float] = []
    for ref in (good, bad):
        jobs = ([ProbeJob(case, ref, turn > 0, here=True)] for turn in range(TIMES))
        probes = [probe for turn in jobs for probe in prober.probe_all(turn, metric.name)]
        known = [value for probe in probes if (value := value_of(probe, metric)) is not None]
        if not known:
            raise no_value(probes[-1], metric)
        values.append(min(known))
    low, high = values
    if high < low:
        metric = replace(metric, lower_is_worse=True)
        low, high = metric.compared(low), metric.compared(high)
    if threshold is not None:
        return MetricThreshold(metric, metric.compared(threshold))
    least = _LEAST_EXACT_RATIO if metric.exact else _LEAST_RATIO
    if low == 0 < high and metric.exact:
        return MetricThreshold(metric, high / 2)  # nothing spilled on one end, something on the other
    if low < math.inf == high and metric.exact:
        return MetricThreshold(metric, low * 2)
    if low <= 0 or high < least * low:
        raise BadInput(
            f"{metric} is {metric.compared(low):.4g} on {good.revision.name} and {metric.compared(high):.4g} on "
            f"{bad.revision.name}: they do not differ by a factor of {least}, too little to bisect"
        )
    return MetricThreshold(metric, math.sqrt(low * high))


def no_value(probe: Probe, metric: Metric) -> BadInput | EnvironmentFailure:
    """Return the error that says why an end of a bisect has no number."""
    problem = f"{probe.case.name} has no {metric} on {probe.revision.name}"
    match probe.outcome:
        case Untestable(cause=Cause.ENVIRONMENT | Cause.TOOLCHAIN, reason=reason):
            return EnvironmentFailure(f"{problem}: {reason}")
        case Untestable(reason=reason):
            return BadInput(f"{problem}: {reason}")
        case Compiled():
            known = sorted({*probe.measured.metrics, Metric.CPU_SECONDS.name, Metric.PEAK_RSS_MB.name})
            return BadInput(f"{problem}; it has {', '.join(known)}")
        case _:
            return BadInput(f"{problem}: it does not compile there")
