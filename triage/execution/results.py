"""The results of `triage run`, and what a dry run knows before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from triage.execution.engine import Engine
from triage.execution.judge import result_of, status_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.exit_codes import Exit, exit_for_results
from triage.model.json_form import UNPRINTED
from triage.model.outcome import Probe
from triage.model.probe_result import ProbeResult


@dataclass(frozen=True)
class RunResults:
    """The results of `triage run`, in the order of cases and toolchains."""

    results: Sequence[ProbeResult]
    cases: Mapping[str, Case] = field(metadata=UNPRINTED)
    """By name."""
    strict: bool = field(default=False, metadata=UNPRINTED)
    """Whether an unexpected pass counts as a failure."""

    @property
    def exit(self) -> Exit:
        return exit_for_results(self.results, strict=self.strict)

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> RunResults:
        cases = {probe.case.name: probe.case for probe in probes}
        return cls([result_of(probe) for probe in probes], cases)


@dataclass(frozen=True, slots=True)
class PlannedProbe:
    """A probe that a dry run does not make."""

    case: str
    toolchain: str
    cached_status: str | None = field(metadata={"alias": "known"})
    """The status, if the result is cached."""
    installed: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """The probes of a dry run."""

    probes: Sequence[PlannedProbe]


def forecast(engine: Engine, jobs: Sequence[ProbeJob]) -> Forecast:
    """Look up what is known of each job; compile nothing."""
    planned = []
    for job in jobs:
        probe = engine.recall(job)
        status = status_of(probe).value if probe else None
        installed = engine.registry.is_installed(job.ref)
        name = job.ref.revision.name
        planned.append(PlannedProbe(job.case.name, name, status, installed))
    return Forecast(planned)
