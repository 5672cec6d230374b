"""Measure compiles and runs of a case on both toolchains in turn."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

from triage.execution.benchmark import Benchmark, Configuration, Series
from triage.execution.runner import CaseProber, ProbeJob, ProbeRunner
from triage.execution.statistics import LOOKS, Pace, compare_times
from triage.model.case import Case
from triage.model.outcome import Compiled
from triage.nightly.result import CompileTimes, ProgramTimes, RunTimes
from triage.toolchains.registry import ToolchainRef

_SLOWER = 0.25  # a compile is slower when its whole interval is beyond this change
_BUDGET = 600.0  # seconds for the compiles of one case


def compile_times(
    runner: CaseProber, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef, budget: float = _BUDGET
) -> CompileTimes | None:
    """Compile a case on both toolchains in turn until its verdict is clear or time is up; None when it does not compile.

    Nothing else is compiled meanwhile. Numbers of another hour are not used.
    """
    old: list[float] = []
    new: list[float] = []
    compared = None
    end = time.monotonic() + budget
    sides = [(baseline, old), (toolchain, new)]
    while len(new) < LOOKS[-1] and (not new or time.monotonic() < end):
        for ref, samples in sides:
            [probe] = runner.probe_all([ProbeJob(replace(case, run=None), ref, fresh=True, here=True)], "measure compile time")
            if not isinstance(probe.outcome, Compiled):
                return None
            samples.append(probe.measured.cpu_seconds)
        sides.reverse()
        if len(new) in LOOKS and (compared := compare_times(old, new, _SLOWER)) and compared.pace is not Pace.NOISY:
            break
    return CompileTimes(
        case=case.name,
        times=round(compared.ratio if compared else median(new) / median(old), 2),
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        baseline_cpu_seconds=median(old),
        cpu_seconds=median(new),
        compiles=len(new),
        verdict=compared.pace if compared else Pace.NOISY,
    )


def run_times(
    runner: ProbeRunner, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef, *, threshold: float, budget: float
) -> list[RunTimes]:
    """Measure the functions of a case on both toolchains in turn; a change is measured again before it is reported."""
    old, new = Configuration(case, baseline), Configuration(case, toolchain)
    result = Benchmark(runner, (old, new), old, threshold, budget).run()

    def series(row: Configuration, function: str) -> Series:
        return result.of(row, function) or result.of(row, "") or Series(row, function)

    return [_run_times(case, series(old, name), series(new, name)) for name in result.functions or ("",)]


def _run_times(case: Case, old: Series, new: Series) -> RunTimes:
    compared = new.comparison
    failed = next((series for series in (new, old) if series.reason is not None), None)
    return RunTimes(
        case=case.name,
        function=new.function or None,
        baseline=_program(old),
        new=_program(new),
        ratio=compared.ratio if compared else None,
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        verdict=compared.pace if compared and failed is None else None,
        reason=f"{failed.configuration.ref.revision.name}: {failed.reason}" if failed else None,
    )


def _program(series: Series) -> ProgramTimes:
    program = series.program
    return ProgramTimes(
        series.median, program.dispatches if program else None, program.bytes if program else None, series.peak_mb
    )
