"""The results of `triage run`, and what a dry run knows before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from triage.execution.engine import Engine
from triage.execution.judge import status_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Failure, Probe, Status
from triage.model.revision import Revision


@dataclass(frozen=True, slots=True)
class RunResult:
    """A case on a toolchain, compared with what its recipe expects."""

    about: Case
    recipe: str
    case: str
    toolchain: Revision
    status: Status
    failure: Failure | None
    reason: str | None
    """Why it is untestable."""
    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    metrics: Mapping[str, float]
    warnings: tuple[Failure, ...]
    flaky: bool
    cached: bool
    foreign: bool
    """Another machine made it, which is not trusted."""

    JSON_KEYS: ClassVar = {"about": None}


@dataclass(frozen=True)
class RunResults:
    """The results of `triage run`, in the order of cases and toolchains."""

    results: Sequence[RunResult]


def run_result(probe: Probe) -> RunResult:
    """Return the result of a probe."""
    case, outcome, measured = probe.case, probe.outcome, probe.measured
    numbers = (
        measured.seconds,
        measured.cpu_seconds,
        measured.peak_rss_mb,
        measured.metrics,
    )
    end = (outcome.warnings, outcome.flaky, probe.cached, probe.foreign)
    status = status_of(probe)
    return RunResult(
        case,
        case.recipe,
        case.name,
        probe.revision,
        status,
        outcome.failure,
        outcome.reason,
        *numbers,
        *end,
    )


@dataclass(frozen=True)
class PlannedProbe:
    """A probe that a command may make."""

    case: str
    toolchain: str
    known: str | None
    """The status, if it is cached."""
    installed: bool


@dataclass(frozen=True)
class Forecast:
    """The probes that a command may make."""

    probes: Sequence[PlannedProbe]
    most: int
    """Probes to make at most, without those whose number `remark` leaves open."""
    remark: str | None = None

    JSON_PROPERTIES: ClassVar[tuple[str, ...]] = ("known",)

    @property
    def known(self) -> int:
        """The number of probes whose results are cached."""
        return sum(probe.known is not None for probe in self.probes)


def forecast(
    engine: Engine,
    jobs: Sequence[ProbeJob],
    *,
    more: int = 0,
    remark: str | None = None,
) -> Forecast:
    """Look up what is known of each job; compile nothing. `more`: probes besides one
    for each job.
    """
    planned = []
    for job in jobs:
        probe = engine.recall(job)
        if probe:
            known = status_of(probe).value
        else:
            known = None
        planned.append(
            PlannedProbe(
                job.case.name,
                job.ref.revision.name,
                known,
                engine.registry.is_installed(job.ref),
            )
        )
    return Forecast(
        planned, sum(probe.known is None for probe in planned) + more, remark
    )
