"""Compare a case's probe on the new toolchain with its probe on the baseline: pure functions."""

from __future__ import annotations

from pathlib import Path

from triage.execution.judge import status_of
from triage.model.case import Case, InputKind
from triage.model.execution import Stage
from triage.model.outcome import FAILING, PASSING, Compiled, Failed, Outcome, Probe, Status, Untestable
from triage.nightly.result import CaseChangeKind, CaseResult, ProbeResult
from triage.recipes.expectations import expectation_for


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
    case, old, own = new.case, probe_result(baseline), probe_result(new)
    expectation = expectation_for(case, new.version, own.failure) if case.expect else None
    return CaseResult(
        **vars(own),
        case=case.name,
        recipe=case.recipe,
        suite=suite_of(case),
        compiler=case.compiler,
        summary=case.summary,
        source=str(_below_here(case.source)),
        target=case.target,
        stages=list(stages_of(case)),
        change=compare(old, own),
        baseline=old,
        issue=expectation.issue if expectation else None,
    )


def probe_result(probe: Probe) -> ProbeResult:
    """Return the result of a case on one toolchain."""
    measured, outcome = probe.measured, probe.outcome
    times = {"compile_seconds": measured.seconds, "cpu_seconds": measured.cpu_seconds, "peak_rss_mb": measured.peak_rss_mb}
    return ProbeResult(
        status=status_of(probe),
        stage=_stage(probe.case, outcome),
        failure=None if isinstance(outcome, Compiled) else outcome.failure,
        reason=outcome.reason if isinstance(outcome, Untestable) else None,
        cause=outcome.cause if isinstance(outcome, Untestable) else None,
        flaky=isinstance(outcome, Failed) and outcome.flaky,
        cached=probe.cached,
        foreign=probe.foreign,
        metrics={name: value for name, value in {**times, **measured.metrics}.items() if value or name not in times},
        warnings=list(outcome.warnings) if isinstance(outcome, Compiled) else [],
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


def _stage(case: Case, outcome: Outcome) -> Stage | None:
    match outcome:
        case Compiled():
            return stages_of(case)[-1]
        case Failed(failure=failure):
            return failure.stage
        case _:
            return None


def _below_here(path: Path) -> Path:
    absolute, here = path.absolute(), Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute
