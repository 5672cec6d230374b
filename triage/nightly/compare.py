"""Compare the results of a case on two toolchains, and group the new failures, with
their owners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from triage.execution.judge import result_of
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    ClusterKey,
    FailureCluster,
)
from triage.model.case import Case
from triage.model.errors import BadFiles, BadInput
from triage.model.outcome import (
    FAILING,
    OF_MACHINE,
    PASSING,
    Cause,
    Probe,
    ProbeResult,
    Status,
)
from triage.model.revision import ToolchainKind
from triage.nightly.history import NightsHistory
from triage.recipes.expectations import expectation_for
from triage.toolchains.project import OwnerRule, find_project, fits_any

EarlierNights = Callable[[], NightsHistory]
"""Reads the stored nights."""


def case_result(
    baseline: Probe, new: Probe, source: str = "", input_hash: str = ""
) -> CaseResult:
    """Return the result of one case of a night. source: the name of its recipe's
    file.
    """
    case, old, result = new.case, result_of(baseline), result_of(new)
    expectation = None
    if case.expect:
        expectation = expectation_for(case, new.version, result.failure)
    return CaseResult(
        **vars(result),
        suite=suite_of(case),
        compiler=case.compiler,
        summary=case.summary,
        source=source,
        input=input_hash,
        target=case.target,
        stages=list(case.stages),
        change=change_between(old, result),
        baseline=old,
        issue=expectation.issue if expectation else None,
    )


def suite_of(case: Case) -> str:
    """Return the suite of a case: the recipe or config that many cases come from, else
    the recipe's folder.
    """
    if case.name.partition("[")[0] == case.recipe:
        return case.source.absolute().parent.name
    return case.recipe


def change_between(baseline: ProbeResult, new: ProbeResult) -> CaseChangeKind:
    """Return how a case changed. A failure that the recipe expects at this version is
    known, not a regression.
    """
    is_untested = baseline.status is Status.UNTESTABLE
    if new.status is Status.UNTESTABLE:
        return CaseChangeKind.UNTESTABLE
    if new.status is Status.XFAIL:
        return CaseChangeKind.KNOWN
    if new.status in PASSING and baseline.status in FAILING:
        return CaseChangeKind.FIXED
    if new.status is Status.XPASS:
        return CaseChangeKind.UNEXPECTED_PASS
    if new.status is Status.PASSED:
        return CaseChangeKind.UNTESTABLE if is_untested else CaseChangeKind.PASSING
    if baseline.status in PASSING:
        return CaseChangeKind.REGRESSED
    if is_untested:
        # a baseline that is not there says nothing about any case
        if baseline.cause in (*OF_MACHINE, Cause.INTERNAL):
            return CaseChangeKind.UNTESTABLE
        return CaseChangeKind.NEW_UNTESTED
    if baseline.state == new.state:
        return CaseChangeKind.FAILING
    return CaseChangeKind.CHANGED


def with_earlier_nights(
    result: CaseResult, kind: ToolchainKind, earlier: EarlierNights
) -> CaseResult:
    """Return a result as the nights before it see it: a case that changes without its
    compiler is flaky, and a failure that an earlier night had is known where the
    baseline could not be tested.
    """
    if not (result.is_new_failure or result.change is CaseChangeKind.FIXED):
        return result
    if result.flaky or result.baseline.flaky or earlier().is_flaky(result.case):
        return replace(result, change=CaseChangeKind.FLAKY)
    is_untested = result.change is CaseChangeKind.NEW_UNTESTED
    if is_untested and earlier().is_known(result, kind):
        return replace(result, change=CaseChangeKind.KNOWN)
    return result


def clusters_of(cases: Iterable[CaseResult]) -> list[FailureCluster]:
    """Return a cluster for each new failure, the most frequent first."""
    groups: dict[ClusterKey, list[CaseResult]] = {}
    for case in cases:
        if case.is_new_failure and case.failure:
            groups.setdefault(case.key_of(case.failure), []).append(case)
    clusters = [
        key.cluster([case.case for case in members], members[0].failure)
        for key, members in groups.items()
    ]
    return sorted(clusters, key=lambda cluster: (-len(cluster.cases), cluster.key))


def owner_rules(family: str) -> Sequence[OwnerRule]:
    """Return the rules for a compiler family in the `triage.yaml` of the current
    folder, if any. BadFiles if the file has mistakes.
    """
    try:
        return find_project(family, Path()).owners
    except BadFiles:
        raise
    except BadInput:  # no file is about the family
        return ()


def with_owners(
    cases: Iterable[CaseResult],
    clusters: Iterable[FailureCluster],
    rules: Sequence[OwnerRule],
) -> list[FailureCluster]:
    """Return the failures with their owners."""
    suites = {case.case: case.suite for case in cases}
    owned = []
    for cluster in clusters:
        names = {suites[name] for name in cluster.cases}
        owned.append(replace(cluster, owner=owner_of(cluster, names, rules)))
    return owned


def owner_of(
    cluster: FailureCluster, suites: Collection[str], rules: Sequence[OwnerRule]
) -> str | None:
    """Return the owner of a failure by the rules of the project file: the last one that
    fits a file of its culprit, a pass, its backend or a suite.
    """
    files, passes = list[str](), list[str]()
    if cluster.culprit and cluster.has_culprit:
        files += [file for change in cluster.culprit.suspects for file in change.files]
    if cluster.attribution:
        passes += cluster.attribution.suspect_passes
    if cluster.failure and cluster.failure.failing_pass:
        passes.append(cluster.failure.failing_pass)
    for rule in reversed(rules):
        for names, patterns in (
            (files, rule.files),
            (passes, rule.passes),
            ([cluster.backend], rule.backends),
            (suites, rule.suites),
        ):
            if any(fits_any(name, patterns) for name in names):
                return rule.owner
    return None
