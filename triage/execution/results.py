"""The results of `triage run`, and what is known before anything is compiled: of the
probes of a dry run, and of a case on the releases of its family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.version import Version

from triage.execution.engine import Engine
from triage.execution.judge import result_of, status_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.exit_codes import Exit, exit_for_results
from triage.model.json_form import UNPRINTED
from triage.model.outcome import Outcome, Probe
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


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
    remark: str | None = None


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


@dataclass(frozen=True, slots=True)
class KnownReleases:
    """Neighbouring releases on which a case ended alike. outcome: passed, failed,
    untestable, or not tried.
    """

    outcome: str
    first: Revision
    last: Revision


@dataclass(frozen=True, slots=True)
class TriedReleases:
    """The outcomes of a case, None if it was not tried, oldest release first."""

    revisions: Sequence[Revision]
    outcomes: Sequence[Outcome | None]
    are_all: bool
    """Whether there is no other release."""

    @classmethod
    def recall(
        cls, engine: Engine, case: Case, others: Sequence[ToolchainRef]
    ) -> TriedReleases:
        """Look up what is known on all releases and on other toolchains."""
        releases, are_all = engine.registry.installed_releases(case.compiler), False
        try:
            releases = engine.registry.listed_releases(case.compiler)
            are_all = True
        except (BadInput, EnvironmentFailure):  # it has none, or there is no network
            pass
        refs = {ref.revision.name: ref for ref in (*releases, *others)}
        names = sorted(refs, key=Version)
        probes = [engine.recall(ProbeJob(case, refs[name])) for name in names]
        return cls(
            [refs[name].revision for name in names],
            [probe.outcome if probe else None for probe in probes],
            are_all,
        )

    def known(self) -> tuple[KnownReleases, ...]:
        """Join neighbours that ended alike, unless a release may lie between two."""
        known: list[KnownReleases] = []
        for revision, outcome in zip(self.revisions, self.outcomes, strict=True):
            status = outcome.plain_status if outcome else "not tried"
            if self.are_all and known and known[-1].outcome == status:
                known[-1] = replace(known[-1], last=revision)
            else:
                known.append(KnownReleases(status, revision, revision))
        return tuple(known)
