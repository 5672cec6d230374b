"""Convert a nightly's probes into the record of the night."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from triage.execution.benchmark import Series
from triage.execution.judge import status_of
from triage.execution.statistics import Pace
from triage.model.case import Case, InputKind
from triage.model.execution import Stage
from triage.model.outcome import Compiled, Failed, Outcome, Probe, Untestable
from triage.nightly.compare import CaseChangeKind, CompileTimes, Night, Pair, RunTimes
from triage.recipes import expectation_for
from triage.report.bisection import bisect_shape
from triage.report.elements import below_here
from triage.report.night_record import (
    CaseRecord,
    ClusterRecord,
    NightRecord,
    ProgramShape,
    ResultRecord,
    RunTimeShape,
    SlowerShape,
    TargetRecord,
    cluster_id,
)
from triage.report.shapes import failure_in, failure_shape, optional_failure, reason_in


def record_of(night: Night, explain: Callable[[str, Exception], Untestable] | None = None) -> NightRecord:
    """Return the record of a night. explain: prints the exception that a case brings out and returns the outcome that stands
    for it; without it the exception is raised.
    """
    return NightRecord(
        toolchain=night.toolchain,
        baseline=night.baseline,
        compiler=next((pair.probe.case.compiler for pair in night.pairs), None),
        started=night.started,
        seconds=round(night.seconds, 2),
        compiles=night.compiles,
        cached=night.cached,
        shard=night.shard,
        positions=dict(night.positions),
        total=night.total,
        scope=night.scope,
        cases=[_case_record(pair, explain) for pair in night.pairs],
        clusters=[_cluster_record(night, *cluster) for cluster in night.clusters],
        slower=[_slower_shape(name, times) for name, times in night.compiled(Pace.SLOWER)],
        maybe_slower=[_slower_shape(name, times) for name, times in night.compiled(Pace.NOISY)],
        run_times=[_run_shape(row) for row in night.runs],
        stopped=night.stopped,
        not_compared=list(night.not_compared),
        strict=night.strict,
        fail_on_slower=night.fail_on_slower,
    )


def with_logs(night: NightRecord, logs: Mapping[tuple[str, str], str]) -> NightRecord:
    """Return the record with the paths of logs. logs: paths by case and revision."""
    names = night.toolchain.name, night.baseline.name
    cases = [
        replace(case, log=logs.get((case.case, names[0])), baseline=replace(case.baseline, log=logs.get((case.case, names[1]))))
        for case in night.cases
    ]
    return replace(night, cases=cases)


def _case_record(pair: Pair, explain: Callable[[str, Exception], Untestable] | None) -> CaseRecord:
    try:
        return case_record(pair)
    except Exception as error:
        if explain is None:
            raise
        outcome = explain(f"the report of {pair.name}", error)
        baseline, probe = (replace(probe, outcome=outcome) for probe in (pair.baseline, pair.probe))
        return case_record(Pair(baseline, probe, CaseChangeKind.UNTESTABLE))


def case_record(pair: Pair) -> CaseRecord:
    """Return the record of one case."""
    case, new, baseline = pair.probe.case, _result(pair.probe), _result(pair.baseline)
    failure = pair.probe.outcome.failure if isinstance(pair.probe.outcome, Failed) else None
    expectation = expectation_for(case, pair.probe.version, failure) if case.expect else None
    if pair.compiles:
        new = replace(new, metrics={**new.metrics, "cpu_seconds": pair.compiles.new})
        baseline = replace(baseline, metrics={**baseline.metrics, "cpu_seconds": pair.compiles.baseline})
    for row in pair.runs[:1] if len(pair.runs) == 1 else ():
        new, baseline = _with_times(new, row.new), _with_times(baseline, row.baseline)
    return CaseRecord(
        **vars(new),
        case=case.name,
        recipe=case.recipe,
        suite=suite_of(case),
        compiler=case.compiler,
        summary=case.summary,
        source=str(below_here(case.source)),
        target=TargetRecord(case.target.backend, case.target.chip, case.target.devices),
        stages=[stage.value for stage in stages_of(case)],
        change=pair.change.value,
        pace=_pace(pair),
        baseline_status=baseline.status,
        baseline=baseline,
        issue=expectation.issue if expectation else None,
        cluster=cluster_id(failure.signature) if failure else None,
        bisections=list(map(bisect_shape, pair.bisections)),
    )


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


def _result(probe: Probe) -> ResultRecord:
    measured, outcome = probe.measured, probe.outcome
    times = {"compile_seconds": measured.seconds, "cpu_seconds": measured.cpu_seconds, "peak_rss_mb": measured.peak_rss_mb}
    return ResultRecord(
        status=status_of(probe).value,
        stage=_stage(probe.case, outcome),
        failure=failure_in(outcome),
        reason=reason_in(outcome),
        cause=outcome.cause.value if isinstance(outcome, Untestable) else None,
        flaky=isinstance(outcome, Failed) and outcome.flaky,
        cached=probe.cached,
        metrics={name: value for name, value in {**times, **measured.metrics}.items() if value or name not in times},
        warnings=[failure_shape(warning) for warning in outcome.warnings] if isinstance(outcome, Compiled) else [],
    )


def _stage(case: Case, outcome: Outcome) -> str | None:
    match outcome:
        case Compiled():
            return stages_of(case)[-1].value
        case Failed(failure=failure):
            return failure.stage.value
        case _:
            return None


def _with_times(result: ResultRecord, series: Series) -> ResultRecord:
    """Add what was measured of the only function of a case."""
    values = {
        "run_seconds": series.median,
        "dispatches": series.program.dispatches if series.program else None,
        "artifact_bytes": series.program.bytes if series.program else None,
        "run_peak_mb": series.peak_mb,
    }
    return replace(result, metrics={**result.metrics, **{name: value for name, value in values.items() if value is not None}})


def _pace(pair: Pair) -> str | None:
    """Return the verdict that says most: slower before faster."""
    paces = [*(row.pace for row in pair.runs), pair.compiles.pace if pair.compiles else None]
    return next((pace.value for pace in (Pace.SLOWER, Pace.FASTER) if pace in paces), None)


def _cluster_record(night: Night, signature: str, names: tuple[str, ...]) -> ClusterRecord:
    pair = next(pair for pair in night.pairs if pair.name == names[0])
    failure = pair.failure
    assert failure
    return ClusterRecord(
        signature=signature,
        cases=list(names),
        id=cluster_id(signature),
        failure=optional_failure(failure),
        explanation=failure.explanation,
        advice=list(failure.advice(pair.probe.case.compiler)),
    )


def _slower_shape(name: str, times: CompileTimes) -> SlowerShape:
    compared = times.comparison
    return SlowerShape(
        case=name,
        times=round(compared.ratio if compared else times.new / times.baseline, 2),
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        baseline_cpu_seconds=times.baseline,
        cpu_seconds=times.new,
        compiles=times.count,
        bisection=bisect_shape(times.bisection) if times.bisection else None,
    )


def _run_shape(row: RunTimes) -> RunTimeShape:
    compared = row.new.comparison
    return RunTimeShape(
        case=row.case,
        function=row.new.function or None,
        baseline=_program_shape(row.baseline),
        new=_program_shape(row.new),
        ratio=compared.ratio if compared else None,
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        verdict=row.pace.value if row.pace else None,
        reason=row.reason,
        bisection=bisect_shape(row.bisection) if row.bisection else None,
    )


def _program_shape(series: Series) -> ProgramShape:
    program = series.program
    return ProgramShape(
        series.median, program.dispatches if program else None, program.bytes if program else None, series.peak_mb
    )
