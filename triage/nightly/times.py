"""The times of a night's cases, measured on both toolchains in turn."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from triage.execution.benchmark import Benchmark, Configuration, Series
from triage.execution.engine import Engine
from triage.execution.in_turn import LOOKS, Contender, Pace, measure_in_turn, ratio_of
from triage.execution.metric import Metric
from triage.execution.timing import compile_sampler
from triage.model.case import Case
from triage.nightly.result import TimeChange
from triage.toolchains.registry import ToolchainRef

_SLOWER = 0.25  # a compile is slower when its whole interval is beyond this change
_RUN_SLOWER = 0.05  # the smallest change of a run time that counts
_BUDGET = 600.0  # seconds for the compiles of one case


def compile_times(
    engine: Engine, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef
) -> list[TimeChange]:
    """Compile a case on both toolchains in turn until its verdict is clear or time is
    up; nothing when it does not compile.

    Nothing else is compiled meanwhile. Numbers of another hour are not used.
    """
    old, new = (
        Contender(sampler=compile_sampler(engine, Metric.CPU_SECONDS, case, ref))
        for ref in (baseline, toolchain)
    )
    ratio, verdict = None, Pace.NOISY
    end = time.monotonic() + _BUDGET
    for taken in measure_in_turn([old, new], end, grace=0.0, warm_up=False):
        if old.problem or new.problem:
            return []
        if taken in LOOKS:
            ratio = ratio_of(old.samples, new.samples)
        if ratio:
            verdict = ratio.pace(_SLOWER)
        if verdict is not Pace.NOISY:
            break
    times = TimeChange(
        case=case.name,
        measured="compile",
        baseline_seconds=old.median,
        seconds=new.median,
        ratio=ratio,
        verdict=verdict,
        reason=None if ratio else f"too few samples ({len(new.samples)})",
    )
    return [times]


def run_times(
    engine: Engine,
    case: Case,
    baseline: ToolchainRef,
    toolchain: ToolchainRef,
    *,
    budget: float,
) -> tuple[list[TimeChange], Mapping[str, float]]:
    """Measure the functions of a case on both toolchains in turn. Return their times,
    and the metrics of a program with one function on the new toolchain.
    """
    pair = Configuration(case, baseline), Configuration(case, toolchain)
    result = Benchmark(pair, pair[0], _RUN_SLOWER).measure(engine, budget)
    old_rows, new_rows = map(result.rows, pair)
    times = []
    for function in result.functions or ("",):
        old = old_rows.get(function) or old_rows.get("") or Series(pair[0])
        new = new_rows.get(function) or new_rows.get("") or Series(pair[1])
        problems = [series for series in (old, new) if series.problem]
        row = TimeChange(
            case=case.name,
            function=function or None,
            baseline_seconds=old.median,
            seconds=new.median,
            ratio=new.ratio,
            verdict=new.verdict,
        )
        for series in problems:
            name = series.configuration.ref.revision.name
            row = replace(row, verdict=None, reason=f"{name}: {series.reason}")
        times.append(row)
    metrics: dict[str, float | None] = {}
    if len(new_rows) == 1:
        [series] = new_rows.values()
        metrics["run_seconds"] = series.median
        if series.program:
            metrics["dispatches"] = series.program.dispatches
    measured = {name: value for name, value in metrics.items() if value is not None}
    return times, measured
