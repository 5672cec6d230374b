"""The results of `triage run`, and what a dry run knows before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from triage.execution.engine import Engine
from triage.execution.judge import result_of, status_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import Probe
from triage.model.probe_result import ProbeResult


@dataclass(frozen=True)
class RunResults:
    """The results of `triage run`, in the order of cases and toolchains."""

    results: Sequence[ProbeResult]
    cases: Mapping[str, Case] = field(metadata=UNPRINTED)
    """By name."""

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> RunResults:
        cases = {probe.case.name: probe.case for probe in probes}
        return cls([result_of(probe) for probe in probes], cases)


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

    @in_json
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
