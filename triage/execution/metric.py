"""Numbers of a case: their names, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from triage.model.execution import Stage
from triage.model.outcome import Failed, Failure, Passed, Probe

RUN_MS = "run_ms"  # the metric of a run that is measured
DISPATCHES = "dispatches"


def metric_failure(
    name: str, headline: str, details: Mapping[str, str], stage: Stage = Stage.COMPILE
) -> Failed:
    """Return the failure of a number that is too large."""
    signature = f"metric:{name}"
    return Failed(
        Failure("metric", "metric", signature, headline, details=details, stage=stage)
    )


_OF_THE_MACHINE = re.compile(r"(?:^|_)(?:seconds|s|ms|us|ns|rss_mb)$")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number measured of a successful compile, which is worse if it is larger. Either
    triage measures it, such as the CPU seconds or the run time of the output, or the
    recipe's compiler prints it.
    """

    name: str

    CPU_SECONDS: ClassVar[Metric]
    RUN_SECONDS: ClassVar[Metric]

    def __str__(self) -> str:
        return self.name

    @property
    def exact(self) -> bool:
        """Whether it is the same each time, however busy the machine is."""
        return _OF_THE_MACHINE.search(self.name) is None

    @property
    def is_of_run(self) -> bool:
        """Whether it is the run time of the compiled program."""
        return self.name == "run_seconds"

    @property
    def is_time(self) -> bool:
        """Whether triage measures it while nothing else runs."""
        return self.name in ("cpu_seconds", "run_seconds")


Metric.CPU_SECONDS = Metric("cpu_seconds")
Metric.RUN_SECONDS = Metric("run_seconds")


def value_of(probe: Probe, metric: Metric) -> float | None:
    """Return a number of a probe; None if the case did not pass or the number was not
    measured.
    """
    if not isinstance(probe.outcome, Passed):
        return None
    measured = probe.measured
    usual = {"cpu_seconds": measured.cpu_seconds, "peak_rss_mb": measured.peak_rss_mb}
    return usual.get(metric.name, measured.metrics.get(metric.name))
