"""The report of a dry run: the probes that a command would make, and what is known of them already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from triage.execution.engine import Engine
from triage.execution.judge import status_of
from triage.execution.scheduler import ProbeJob
from triage.report.document import Block, Document, Facts, Paragraph, Span
from triage.report.elements import plural
from triage.report.registry import DocumentReport


@dataclass(frozen=True)
class PlannedProbe:
    """A probe that a command may make."""

    case: str
    toolchain: str
    known: str | None
    """The status, where it is cached."""
    installed: bool
    """Whether the toolchain is installed."""


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


@dataclass(frozen=True)
class ForecastReport(DocumentReport):
    """What a dry run prints."""

    result: Forecast

    def document(self) -> Document:
        """Show for each case which toolchains are known and which are not, and the number of compiles."""
        forecast = self.result
        blocks: list[Block] = []
        for case, group in groupby(forecast.probes, key=lambda probe: probe.case):
            toolchains: dict[str, list[str]] = {}
            for probe in group:
                state = probe.known or ("to compile" if probe.installed else "to install and compile")
                toolchains.setdefault(state, []).append(probe.toolchain)
            blocks += [
                Paragraph(Span(case, "strong")),
                Facts([(state, ", ".join(names)) for state, names in toolchains.items()]),
            ]
        remark = f"; {forecast.remark}" if forecast.remark else ""
        counts = f"{plural(forecast.known, 'result')} cached, at most {plural(forecast.most, 'probe')} to make"
        return Document("What would be compiled", [*blocks, Paragraph(f"{counts}{remark}; nothing was compiled")])


def forecast(runner: Engine, jobs: Sequence[ProbeJob], *, more: int = 0, what: str | None = None) -> ForecastReport:
    """Look up what is known of each job; compile nothing.

    more: probes besides one for each job; what: a remark about their number.
    """
    planned = []
    for job in jobs:
        probe = runner.recall(job)
        known = status_of(probe).value if probe else None
        planned.append(PlannedProbe(job.case.name, job.ref.revision.name, known, runner.registry.is_installed(job.ref)))
    unknown = sum(probe.known is None for probe in planned)
    return ForecastReport(Forecast(planned, unknown + more, what))
