"""What a night says of each backend: what broke, what is known, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from triage.bisect.result import Answer
from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.outcome import Status


class Action(StrEnum):
    """What somebody has to do. The values are part of the JSON of a night."""

    FILE = "file"
    """An issue: the failure was investigated, and its draft is written."""
    WAIT = "wait"
    """For an issue that a recipe names for a known failure."""
    INVESTIGATE = "investigate"
    CLOSE = "close"
    """The case passes although its recipe expects a failure."""
    LOOK = "look"
    """Why a case is flaky."""


@dataclass(frozen=True, slots=True)
class BackendVerdict:
    """What a night says of one backend. `failures` are different new failures, each of
    one or more cases.
    """

    backend: str
    """Empty for compilers without backends."""
    cases: int
    broken: int
    """Cases that fail in a new way."""
    fixed: int
    failures: int
    with_culprit: int
    """New failures whose culprit a bisect found."""
    not_investigated: int
    reason: str | None
    """Why the first of those was not investigated, if something prevented it."""
    actions: Mapping[Action, int] = field(default_factory=dict)


def verdicts_of(
    cases: Sequence[CaseResult], clusters: Sequence[FailureCluster]
) -> list[BackendVerdict]:
    """Return the verdicts, those with the most broken cases first."""
    backends = dict.fromkeys(case.backend for case in cases)
    verdicts = [
        _verdict(
            backend,
            [case for case in cases if case.backend == backend],
            [cluster for cluster in clusters if cluster.backend == backend],
        )
        for backend in backends
    ]
    return sorted(verdicts, key=lambda one: (-one.broken, one.backend))


def action_of(cluster: FailureCluster) -> Action:
    """Return what to do about a new failure."""
    if cluster.is_investigated:
        return Action.FILE
    return Action.INVESTIGATE


def _verdict(
    backend: str, cases: Sequence[CaseResult], clusters: Sequence[FailureCluster]
) -> BackendVerdict:
    broken = [case for case in cases if case.counts]
    open_clusters = [
        cluster for cluster in clusters if action_of(cluster) is Action.INVESTIGATE
    ]
    left = [
        step.reason
        for cluster in open_clusters
        for step in cluster.steps
        if step.status != "done" and step.reason
    ]
    actions = Counter(_actions(cases, clusters))
    return BackendVerdict(
        backend=backend,
        cases=len(cases),
        broken=len(broken),
        fixed=sum(case.change is CaseChangeKind.FIXED for case in cases),
        failures=len(clusters),
        with_culprit=sum(_has_culprit(cluster) for cluster in clusters),
        not_investigated=len(open_clusters),
        reason=next(iter(left), None),
        actions={action: actions[action] for action in Action if actions[action]},
    )


def _actions(
    cases: Sequence[CaseResult], clusters: Sequence[FailureCluster]
) -> Iterator[Action]:
    yield from map(action_of, clusters)
    issues = {case.issue for case in cases if case.change is CaseChangeKind.KNOWN}
    yield from (Action.WAIT for issue in issues if issue)
    for case in cases:
        if case.status is Status.XPASS:
            yield Action.CLOSE
        elif case.change is CaseChangeKind.FLAKY:
            yield Action.LOOK


def _has_culprit(cluster: FailureCluster) -> bool:
    return cluster.culprit is not None and cluster.culprit.status is Answer.CULPRIT
