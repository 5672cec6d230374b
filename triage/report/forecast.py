"""The report of a dry run: the probes that a command would make, and what is known of them already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from triage.execution.judge import status_of
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.report.elements import facts_table, plural
from triage.report.registry import Report
from triage.report.shapes import Shape


@dataclass(frozen=True)
class PlannedProbeShape(Shape):
    """A probe that a command may make. `known`: its status, where it is cached; `installed`: whether its toolchain is."""

    case: str
    toolchain: str
    known: str | None
    installed: bool


@dataclass(frozen=True)
class ForecastShape(Shape):
    """JSON of `--dry-run`. `most`: probes to make at most, without those whose number `remark` leaves open."""

    probes: list[PlannedProbeShape]
    known: int
    most: int
    remark: str | None


@dataclass(frozen=True, slots=True)
class ForecastReport(Report):
    """The probes that a command may make. most: to make at most; remark: what else to know about their number."""

    probes: Sequence[PlannedProbeShape]
    most: int
    remark: str | None = None

    @property
    def known(self) -> int:
        """The probes whose results are cached."""
        return sum(probe.known is not None for probe in self.probes)

    def shape(self) -> ForecastShape:
        return ForecastShape(list(self.probes), self.known, self.most, self.remark)

    def blocks(self) -> Iterable[RenderableType]:
        """Show for each case which toolchains are known and which are not, and the number of compiles."""
        for case, group in groupby(self.probes, key=lambda probe: probe.case):
            yield Text(case, style="bold")
            yield facts_table(_states(list(group)))
        remark = f"; {self.remark}" if self.remark else ""
        yield Text(
            f"{plural(self.known, 'result')} cached, at most {plural(self.most, 'probe')} to make{remark}; nothing was compiled"
        )


def _states(probes: Sequence[PlannedProbeShape]) -> Iterable[tuple[str, str]]:
    by_state: dict[str, list[str]] = {}
    for probe in probes:
        state = probe.known or ("to compile" if probe.installed else "to install and compile")
        by_state.setdefault(state, []).append(probe.toolchain)
    for state, toolchains in by_state.items():
        yield state, ", ".join(toolchains)


def forecast(
    runner: ProbeRunner,
    jobs: Sequence[ProbeJob],
    *,
    more: int = 0,
    what: str | None = None,
) -> ForecastReport:
    """Look up what is known of each job; compile nothing.

    more: probes besides one for each job; what: a remark about their number.
    """
    shapes = []
    for job in jobs:
        probe = runner.recall(job)
        known = status_of(probe).value if probe else None
        shapes.append(PlannedProbeShape(job.case.name, job.ref.revision.name, known, runner.registry.is_installed(job.ref)))
    unknown = sum(shape.known is None for shape in shapes)
    return ForecastReport(shapes, unknown + more, what)
