"""Bisect a number instead of a failure: compile time, memory, artifact size. More is worse."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.failure import Failure
from triage.model.outcome import Cause, Compiled, Failed, Untestable
from triage.model.probe import Probe
from triage.model.revision import Toolchain
from triage.probe.prober import Prober
from triage.probe.workbench import Workbench
from triage.toolchains.shed import Place

_APART = 1.25  # the worse end must be this many times the better one
_NEAR = 1.3  # a value this close to the threshold, as a factor, is measured again
_TIMES = 3  # at most, and at the ends always; the smallest counts, since a busy machine only adds


class Metric(StrEnum):
    """What is measured of a compile that succeeds."""

    CPU_SECONDS = "cpu_seconds"
    PEAK_RSS_MB = "peak_rss_mb"
    ARTIFACT_BYTES = "artifact_bytes"


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads a compile whose number lies above the threshold as a failure of its own class, so that every search that
    looks for failures looks for numbers as well. Other failures stay what they are.
    """

    metric: Metric
    threshold: float

    def __call__(self, prober: Prober, toolchain: Toolchain, probe: Probe) -> Probe:
        """Measured again, nothing recalled, while the value lies too near to the threshold."""
        value = value_of(probe, self.metric)
        for _ in range(_TIMES - 1):
            if value is None or not self.threshold / _NEAR < value < self.threshold * _NEAR:
                break
            again = value_of(prober.probe(probe.case, toolchain, fresh=True), self.metric)
            value = value if again is None else min(value, again)
        if value is None or value <= self.threshold:
            return probe
        return replace(probe, outcome=Failed(self._failure(value)))

    def _failure(self, value: float) -> Failure:
        words = f"{self.metric} is {value:.4g}, above {self.threshold:.4g}"
        name = f"metric:{self.metric}"
        return Failure("metric", "metric", name, words, details={"value": f"{value:.4g}", "threshold": f"{self.threshold:.4g}"})


def value_of(probe: Probe, metric: Metric) -> float | None:
    """The number; None where the case did not compile or it was not measured."""
    if not isinstance(probe.outcome, Compiled):
        return None
    match metric:
        case Metric.CPU_SECONDS:
            return probe.measured.cpu_seconds
        case Metric.PEAK_RSS_MB:
            return probe.measured.peak_rss_mb
        case Metric.ARTIFACT_BYTES:
            return probe.measured.metrics.get("artifact_bytes")


def reading_between(bench: Workbench, case: Case, good: Place, bad: Place, metric: Metric) -> Reading:
    """The reading whose threshold lies halfway, as a factor, between two ends, each measured several times.

    BadInput when an end does not compile, or when the ends are too much alike to tell what lies between them;
    EnvironmentFailure when the compiler of an end cannot be had.
    """
    values: list[float] = []
    for place in (good, bad):
        probes = [bench.probe(case, place, fresh=turn > 0) for turn in range(_TIMES)]
        known = [value for probe in probes if (value := value_of(probe, metric)) is not None]
        if not known:
            raise _no_value(probes[-1], metric)
        values.append(min(known))
    low, high = values
    if low <= 0 or high < _APART * low:
        raise BadInput(
            f"{metric} is {low:.4g} on {good.revision.name} and {high:.4g} on {bad.revision.name}: "
            f"less than {_APART} times as much, too little to bisect"
        )
    return Reading(metric, math.sqrt(low * high))


def _no_value(probe: Probe, metric: Metric) -> BadInput | EnvironmentFailure:
    told = f"{probe.case.name} has no {metric} on {probe.revision.name}"
    match probe.outcome:
        case Untestable(cause=Cause.ENVIRONMENT | Cause.TOOLCHAIN, reason=reason):
            return EnvironmentFailure(f"{told}: {reason}")
        case Untestable(reason=reason):
            return BadInput(f"{told}: {reason}")
        case _:
            return BadInput(f"{told}: it does not compile there")
