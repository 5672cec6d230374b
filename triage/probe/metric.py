"""Numbers of compiles that succeed, and a compile read as a failure because its number is too large. More is worse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from triage.model.failure import Failure
from triage.model.outcome import Compiled, Failed
from triage.model.probe import Probe
from triage.model.revision import Toolchain
from triage.probe.prober import Prober

_NEAR = 1.3  # a value this close to the threshold, as a factor, is measured again
TIMES = 3  # measurements at most; the smallest counts, since a busy machine only adds


class Metric(StrEnum):
    """What is measured of a compile that succeeds."""

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
class Reading:
    """Reads a compile whose number lies above the threshold as a failure of its own class, so that every search that
    looks for failures looks for numbers as well. Other failures stay what they are.
    """

    metric: Metric
    threshold: float

    def __call__(self, prober: Prober, toolchain: Toolchain, probe: Probe) -> Probe:
        """Measured again, nothing recalled, while the value lies too near to the threshold."""
        value = value_of(probe, self.metric)
        for _ in range(TIMES - 1):
            if value is None or self.metric.exact or not self.threshold / _NEAR < value < self.threshold * _NEAR:
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
        case _:
            return probe.measured.metrics.get(metric.value)
