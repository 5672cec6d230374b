"""Measure compiles that succeed, and read one whose number is too large as a failure. Larger numbers are worse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from triage.model.outcome import Compiled, Failed, Failure, Probe

_NEAR = 1.3  # a value within this factor of the threshold is measured again
TIMES = 3  # measurements at most; the smallest counts, since a busy machine only adds


class Metric(StrEnum):
    """A number of a compile that succeeds."""

    CPU_SECONDS = "cpu_seconds"
    PEAK_RSS_MB = "peak_rss_mb"
    ARTIFACT_BYTES = "artifact_bytes"
    BINARY_BYTES = "binary_bytes"
    SHARED_BYTES = "shared_bytes"
    REGISTERS = "registers"
    SPILL_BYTES = "spill_bytes"

    @property
    def exact(self) -> bool:
        """Whether it is the same each time, however busy the machine is."""
        return self not in (Metric.CPU_SECONDS, Metric.PEAK_RSS_MB)


@dataclass(frozen=True, slots=True)
class MetricThreshold:
    """Reads a compile whose number is above the threshold as a failure of its own class.

    Every search that looks for failures can then look for numbers. Other failures stay what they are.
    """

    metric: Metric
    threshold: float

    def read(self, probe: Probe, again: Callable[[], Probe]) -> Probe:
        """Return the probe as the threshold judges it. `again` repeats the compile while the value is near the threshold."""
        value = value_of(probe, self.metric)
        for _ in range(TIMES - 1):
            if value is None or self.metric.exact or not self.threshold / _NEAR < value < self.threshold * _NEAR:
                break
            repeated = value_of(again(), self.metric)
            value = value if repeated is None else min(value, repeated)
        if value is None or value <= self.threshold:
            return probe
        details = {"value": f"{value:.4g}", "threshold": f"{self.threshold:.4g}"}
        headline = f"{self.metric} is {details['value']}, above {details['threshold']}"
        return replace(probe, outcome=Failed(Failure("metric", "metric", f"metric:{self.metric}", headline, details=details)))


def value_of(probe: Probe, metric: Metric) -> float | None:
    """Return the number; None when the case did not compile or it was not measured."""
    if not isinstance(probe.outcome, Compiled):
        return None
    match metric:
        case Metric.CPU_SECONDS:
            return probe.measured.cpu_seconds
        case Metric.PEAK_RSS_MB:
            return probe.measured.peak_rss_mb
        case _:
            return probe.measured.metrics.get(metric.value)
