"""Numbers of a case: their names, what they mean, and the thresholds that a recipe
sets for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Passed, Probe
from triage.recipes.values import rounded_text

if TYPE_CHECKING:
    from triage.toolchains.registry import ToolchainRef

RUN_MS = "run_ms"  # the metric of a run that is measured
DISPATCHES = "dispatches"


def judge_thresholds(
    case: Case, metrics: Mapping[str, float], stage: Stage
) -> Failed | NoAnswer | None:
    """Return the failure of the first number of a stage that is above its threshold, or
    why it is not known; None if all are within theirs.
    """
    for name, largest in case.thresholds:
        if (name == RUN_MS) != (stage is Stage.BENCHMARK):
            continue
        if name not in metrics:
            return NoAnswer(Cause.FLAG, f"this version does not report {name}")
        if metrics[name] > largest:
            return _failure_above(name, metrics[name], largest, stage)
    return None


def _failure_above(
    name: str,
    value: float,
    largest: float,
    stage: Stage = Stage.COMPILE,
    *,
    lower_is_worse: bool = False,
) -> Failed:
    details = {"value": rounded_text(value), "threshold": rounded_text(largest)}
    headline = (
        f"{name} is {details['value']}, {'below' if lower_is_worse else 'above'} "
        f"{details['threshold']}"
    )
    return Failed(
        Failure(
            "metric", "metric", f"metric:{name}", headline, details=details, stage=stage
        )
    )


def metric_failure(metric: Metric, value: float, before: float, good: str) -> Failure:
    """Return the failure of a number that grew, or that shrank where less is worse.
    The numbers are compared ones; good: the name of the good toolchain.
    """
    texts = [
        rounded_text(metric.comparison_value(number)) for number in (value, before)
    ]
    return Failure(
        "metric",
        "metric",
        f"metric:{metric}",
        f"{metric} is {texts[0]}, and {texts[1]} on {good}",
        details={"value": texts[0], "good": texts[1]},
        stage=Stage.COMPILE,
    )


_NEAR = 1.3  # a value within this factor of the threshold is measured again
TIMES = 3  # measurements at most; the smallest counts, since a busy machine only adds
# times and memory
_OF_THE_MACHINE = re.compile(r"(?:^|_)(?:seconds|s|ms|us|ns|rss_mb)$")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number measured of a successful compile. Either triage measures it, such as the
    CPU seconds or the run time of the output, or the recipe's compiler prints it.

    lower_is_worse: it became worse when it shrank, such as a number of vectorized
    loops. Then its reciprocal is compared, which grows.
    """

    name: str
    lower_is_worse: bool = False

    CPU_SECONDS: ClassVar[Metric]
    PEAK_RSS_MB: ClassVar[Metric]
    ARTIFACT_BYTES: ClassVar[Metric]
    # measured in turn with the good and the bad compiler of a bisect
    RUN_SECONDS: ClassVar[Metric]

    def __str__(self) -> str:
        return self.name

    @property
    def exact(self) -> bool:
        """Whether it is the same each time, however busy the machine is."""
        return _OF_THE_MACHINE.search(self.name) is None

    def comparison_value(self, value: float) -> float:
        """Return the number to compare instead of a value: its reciprocal if lower is
        worse. Applied twice, it returns the value.
        """
        if not self.lower_is_worse:
            return value
        if value > 0:
            return 1 / value
        return math.inf


Metric.CPU_SECONDS, Metric.PEAK_RSS_MB = Metric("cpu_seconds"), Metric("peak_rss_mb")
Metric.ARTIFACT_BYTES = Metric("artifact_bytes")
Metric.RUN_SECONDS = Metric("run_seconds")


@dataclass(frozen=True, slots=True)
class MetricThreshold:
    """Reads a compile whose number is above the threshold as a failure of its own
    class.

    Every search that looks for failures can then look for numbers. Other failures stay
    what they are. threshold: of what is compared of the metric.
    """

    metric: Metric
    threshold: float

    is_alone: ClassVar[bool] = False

    def judge(
        self, probe: Probe, _ref: ToolchainRef, again: Callable[[], Probe]
    ) -> Probe:
        """Return the probe as the threshold judges it. `again` repeats the compile
        while the value is near the threshold.
        """
        value = value_of(probe, self.metric)
        for _ in range(TIMES - 1):
            if (
                value is None
                or self.metric.exact
                or not self.threshold / _NEAR < value < self.threshold * _NEAR
            ):
                break
            repeated = value_of(again(), self.metric)
            if repeated is not None:
                value = min(value, repeated)
        if value is None or value <= self.threshold:
            return probe
        value = self.metric.comparison_value(value)
        threshold = self.metric.comparison_value(self.threshold)
        return replace(
            probe,
            outcome=_failure_above(
                self.metric.name,
                value,
                threshold,
                lower_is_worse=self.metric.lower_is_worse,
            ),
        )


def value_of(probe: Probe, metric: Metric) -> float | None:
    """Return the comparison value of a number; None if the case did not pass or the
    number was not measured.
    """
    if not isinstance(probe.outcome, Passed):
        return None
    own = {
        Metric.CPU_SECONDS.name: probe.measured.cpu_seconds,
        Metric.PEAK_RSS_MB.name: probe.measured.peak_rss_mb,
    }
    value = own.get(metric.name, probe.measured.metrics.get(metric.name))
    if value is None:
        return None
    return metric.comparison_value(value)
