"""Compare probes on the new toolchain with those on the baseline, and group new failures: pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from triage.execution.judge import status_of
from triage.model.case import Case, InputKind
from triage.model.execution import Stage
from triage.model.outcome import FAILING, PASSING, Compiled, Failed, Probe, Status, Untestable
from triage.nightly.result import CaseChangeKind, CaseResult, FailureCluster, ProbeResult, cluster_id
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
    clusters = []
    for signature, members in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        origins = [origin for case in members for origin in case.bisections if origin.after]
        cluster = FailureCluster(
            signature=signature,
            cases=[case.case for case in members],
            id=cluster_id(signature),
            failure=members[0].failure,
            culprit=next((origin for origin in origins if origin.brought_failure), None),
            fix=next((origin for origin in origins if not origin.brought_failure), None),
        )
        clusters.append(cluster)
    return clusters


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
