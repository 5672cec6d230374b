"""Measure compiles and runs of a case on both toolchains in turn."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import median

from triage.execution.benchmark import Benchmark, Configuration, Series
from triage.execution.engine import Engine
from triage.execution.statistics import LOOKS, Pace, compare_times
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Compiled
from triage.nightly.result import TimeChange
from triage.toolchains.registry import ToolchainRef

_SLOWER = 0.25  # a compile is slower when its whole interval is beyond this change
_BUDGET = 600.0  # seconds for the compiles of one case


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The run times of a case's functions, and the metrics of its program on the baseline and on the new toolchain."""

    rows: list[TimeChange]
    metrics: tuple[dict[str, float], dict[str, float]]


def compile_times(
    runner: Engine, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef, budget: float = _BUDGET
) -> TimeChange | None:
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
    return TimeChange(
        case=case.name,
        measured="compile",
        baseline_seconds=median(old),
        seconds=median(new),
        ratio=round(compared.ratio if compared else median(new) / median(old), 2),
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        verdict=compared.pace if compared else Pace.NOISY,
        reason=None if compared else f"too few samples ({len(new)})",
    )


def run_times(
    runner: Engine, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef, *, threshold: float, budget: float
) -> RunTimes:
    """Measure the functions of a case on both toolchains in turn; a change is measured again before it is reported."""
    pair = Configuration(case, baseline), Configuration(case, toolchain)
    result = Benchmark(runner, pair, pair[0], threshold, budget).run()
    rows = []
    for function in result.functions or ("",):
        found = (result.of(side, function) or result.of(side, "") or Series(side, function) for side in pair)
        rows.append(_time_change(*found))
    sides = [list(result.rows(side)) for side in pair]
    old, new = (_metrics(side[0]) if len(side) == 1 else {} for side in sides)
    return RunTimes(rows, (old, new))


def _time_change(old: Series, new: Series) -> TimeChange:
    compared = new.comparison
    failed = next((series for series in (new, old) if series.reason is not None), None)
    return TimeChange(
        case=new.configuration.case.name,
        function=new.function or None,
        baseline_seconds=old.median,
        seconds=new.median,
        ratio=compared.ratio if compared else None,
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        verdict=compared.pace if compared and failed is None else None,
        reason=f"{failed.configuration.ref.revision.name}: {failed.reason}" if failed else None,
    )


def _metrics(series: Series) -> dict[str, float]:
    program = series.program
    values = {
        "run_seconds": series.median,
        "dispatches": program.dispatches if program else None,
        "artifact_bytes": program.bytes if program else None,
        "run_peak_mb": series.peak_mb,
    }
    return {name: value for name, value in values.items() if value is not None}
