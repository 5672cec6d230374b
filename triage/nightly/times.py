"""The times of a night's cases, measured on both toolchains in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence

from triage.execution.benchmark import Benchmark, Configuration, Series
from triage.execution.engine import Engine
from triage.execution.in_turn import LOOKS, Contender, Pace, measure_in_turn, ratio_of
from triage.execution.metric import Metric
from triage.execution.timing import compile_sampler
from triage.model.case import Case
from triage.nightly.result import TimeChange
from triage.toolchains.registry import ToolchainRef

_SLOWER = 0.25  # a compile is slower when its whole interval is beyond this change
_BUDGET = 600.0  # seconds for the compiles of one case


def compile_times(
    engine: Engine, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef
) -> TimeChange | None:
    """Compile a case on both toolchains in turn until its verdict is clear or time is
    up; None when it does not compile.

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
            return None
        if taken in LOOKS:
            ratio = ratio_of(old.samples, new.samples)
        if ratio:
            verdict = ratio.pace(_SLOWER)
        if verdict is not Pace.NOISY:
            break
    return TimeChange(
        case=case.name,
        measured="compile",
        baseline_seconds=old.median,
        seconds=new.median,
        ratio=ratio,
        verdict=verdict,
        reason=None if ratio else f"too few samples ({len(new.samples)})",
    )


def run_times(
    engine: Engine,
    case: Case,
    baseline: ToolchainRef,
    toolchain: ToolchainRef,
    *,
    budget: float,
) -> tuple[list[TimeChange], dict[str, float], dict[str, float]]:
    """Measure the functions of a case on both toolchains in turn.

    Returns:
        The times, and the metrics of the program on the baseline and on the new
            toolchain.
    """
    pair = Configuration(case, baseline), Configuration(case, toolchain)
    result = Benchmark(pair, pair[0]).measure(engine, budget)
    measured = [(each, result.rows(each)) for each in pair]
    rows = []
    for function in result.functions or ("",):
        old, new = (
            rows.get(function) or rows.get("") or Series(each, function)
            for each, rows in measured
        )
        verdict, reason = new.verdict, None
        for series in (old, new):
            if series.problem:
                name = series.configuration.ref.revision.name
                verdict, reason = None, f"{name}: {series.reason}"
        rows.append(
            TimeChange(
                case=case.name,
                function=new.function or None,
                baseline_seconds=old.median,
                seconds=new.median,
                ratio=new.ratio,
                verdict=verdict,
                reason=reason,
            )
        )
    before, after = (_program_metrics([*rows.values()]) for _, rows in measured)
    return rows, before, after


def _program_metrics(rows: Sequence[Series]) -> dict[str, float]:
    """Return the metrics of a program by name, if it has one function only."""
    if len(rows) != 1:
        return {}
    [series] = rows
    program = series.program
    values = {
        "run_seconds": series.median,
        "dispatches": program.dispatches if program else None,
        "artifact_bytes": program.bytes if program else None,
    }
    return {name: value for name, value in values.items() if value is not None}
