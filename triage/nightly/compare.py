"""Compare a case on two toolchains: its results, and times that are measured in turn."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median

from triage.execution.benchmark import Benchmark, Configuration, Series
from triage.execution.engine import Engine
from triage.execution.judge import status_of
from triage.execution.statistics import LOOKS, Comparison, Pace, compare_times
from triage.execution.task import ProbeJob
from triage.model.case import Case, InputKind
from triage.model.execution import Stage
from triage.model.outcome import FAILING, PASSING, Compiled, Failed, Probe, Status, Untestable
from triage.nightly.result import CaseChangeKind, CaseResult, FailureCluster, ProbeResult, TimeChange, cluster_id
from triage.recipes.expectations import expectation_for
from triage.toolchains.registry import ToolchainRef

_SLOWER = 0.25  # a compile is slower when its whole interval is beyond this change
_BUDGET = 600.0  # seconds for the compiles of one case


def compare(baseline: ProbeResult, new: ProbeResult) -> CaseChangeKind:
    """Return how a case changed. A failure that the recipe expects at this version is known, not a regression."""
    if Status.UNTESTABLE in (baseline.status, new.status):
        return CaseChangeKind.UNTESTABLE
    if new.status in PASSING:
        passing = CaseChangeKind.UNEXPECTED_PASS if new.status is Status.XPASS else CaseChangeKind.PASSING
        return CaseChangeKind.FIXED if baseline.status in FAILING else passing
    if new.status is Status.XFAIL:
        return CaseChangeKind.KNOWN
    if baseline.status in PASSING:
        return CaseChangeKind.REGRESSED
    signatures = [result.failure and result.failure.signature for result in (baseline, new)]
    return CaseChangeKind.FAILING if signatures[0] == signatures[1] else CaseChangeKind.CHANGED


def case_result(baseline: Probe, new: Probe) -> CaseResult:
    """Return the result of one case of a night."""
    case, old, own, here = new.case, probe_result(baseline), probe_result(new), Path.cwd()
    source = case.source.absolute()
    expectation = expectation_for(case, new.version, own.failure) if case.expect else None
    return CaseResult(
        **vars(own),
        case=case.name,
        recipe=case.recipe,
        suite=suite_of(case),
        compiler=case.compiler,
        summary=case.summary,
        source=str(source.relative_to(here) if source.is_relative_to(here) else source),
        target=case.target,
        stages=list(stages_of(case)),
        change=compare(old, own),
        baseline=old,
        issue=expectation.issue if expectation else None,
    )


def probe_result(probe: Probe) -> ProbeResult:
    """Return the result of a case on one toolchain."""
    measured, outcome = probe.measured, probe.outcome
    failed = outcome.failure if isinstance(outcome, Failed) else None
    times = {"compile_seconds": measured.seconds, "cpu_seconds": measured.cpu_seconds, "peak_rss_mb": measured.peak_rss_mb}
    return ProbeResult(
        status=status_of(probe),
        stage=stages_of(probe.case)[-1] if isinstance(outcome, Compiled) else failed.stage if failed else None,
        failure=outcome.failure,
        reason=outcome.reason,
        cause=outcome.cause if isinstance(outcome, Untestable) else None,
        flaky=outcome.flaky,
        cached=probe.cached,
        foreign=probe.foreign,
        metrics={name: value for name, value in {**times, **measured.metrics}.items() if value or name not in times},
        warnings=list(outcome.warnings),
    )


def clusters_of(cases: Iterable[CaseResult]) -> list[FailureCluster]:
    """Return a cluster for each new failure signature, the most frequent first."""
    groups: dict[str, list[CaseResult]] = {}
    for case in sorted(cases, key=lambda case: case.change is CaseChangeKind.CHANGED):
        if case.counts and case.failure:
            groups.setdefault(case.failure.signature, []).append(case)
    return [
        FailureCluster(
            signature=signature,
            cases=[case.case for case in members],
            id=cluster_id(signature),
            failure=members[0].failure,
        )
        for signature, members in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    ]


def suite_of(case: Case) -> str:
    """Return the suite of a case: the recipe or config that many cases come from, else the recipe's folder."""
    is_own = case.name.partition("[")[0] == case.recipe
    return case.source.absolute().parent.name if is_own else case.recipe


def stages_of(case: Case) -> tuple[Stage, ...]:
    """Return the stages that a case has."""
    importing = (Stage.IMPORT,) if case.input.kind is InputKind.ONNX else ()
    if case.run is None:
        return (*importing, Stage.COMPILE)
    compared = (Stage.COMPARE,) if case.run.expected or case.run.reference else ()
    measured = (Stage.BENCHMARK,) if case.run.measured else ()
    return (*importing, Stage.COMPILE, Stage.RUN, *compared, *measured)


def compile_times(runner: Engine, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef) -> TimeChange | None:
    """Compile a case on both toolchains in turn until its verdict is clear or time is up; None when it does not compile.

    Nothing else is compiled meanwhile. Numbers of another hour are not used.
    """
    old: list[float] = []
    new: list[float] = []
    compared = None
    end = time.monotonic() + _BUDGET
    series = [(baseline, old), (toolchain, new)]
    while len(new) < LOOKS[-1] and (not new or time.monotonic() < end):
        for ref, samples in series:
            [probe] = runner.probe_all([ProbeJob(replace(case, run=None), ref, fresh=True, here=True)], "measure compile time")
            if not isinstance(probe.outcome, Compiled):
                return None
            samples.append(probe.measured.cpu_seconds)
        series.reverse()
        if len(new) in LOOKS and (compared := compare_times(old, new, _SLOWER)) and compared.pace is not Pace.NOISY:
            break
    if compared is None:
        reason = f"too few samples ({len(new)})"
        change = TimeChange(case=case.name, ratio=round(median(new) / median(old), 2), verdict=Pace.NOISY, reason=reason)
    else:
        change = _compared(case, compared)
    return replace(change, measured="compile", baseline_seconds=median(old), seconds=median(new))


def run_times(
    runner: Engine, case: Case, baseline: ToolchainRef, toolchain: ToolchainRef, *, threshold: float, budget: float
) -> tuple[list[TimeChange], dict[str, float], dict[str, float]]:
    """Measure the functions of a case on both toolchains in turn; a change is measured again before it is reported.

    Returns:
        The times, and the metrics of the program on the baseline and on the new toolchain.
    """
    pair = Configuration(case, baseline), Configuration(case, toolchain)
    result = Benchmark(pair, pair[0], threshold).measure(runner, budget)
    rows = []
    for function in result.functions or ("",):
        old, new = (result.of(each, function) or result.of(each, "") or Series(each, function) for each in pair)
        failed = next((series for series in (new, old) if series.reason is not None), None)
        change = _compared(case, new.comparison)
        if failed:
            reason = f"{failed.configuration.ref.revision.name}: {failed.reason}"
            change = replace(change, verdict=None, reason=reason)
        rows.append(replace(change, function=new.function or None, baseline_seconds=old.median, seconds=new.median))
    series = [result.rows(each) for each in pair]
    before, after = (_metrics(each[0]) if len(each) == 1 else {} for each in series)
    return rows, before, after


def _compared(case: Case, compared: Comparison | None) -> TimeChange:
    change = TimeChange(case=case.name)
    if compared is None:
        return change
    return replace(change, ratio=compared.ratio, low=compared.low, high=compared.high, verdict=compared.pace)


def _metrics(series: Series) -> dict[str, float]:
    program = series.program
    values = {
        "run_seconds": series.median,
        "dispatches": program.dispatches if program else None,
        "artifact_bytes": program.bytes if program else None,
        "run_peak_mb": series.peak_mb,
    }
    return {name: value for name, value in values.items() if value is not None}
