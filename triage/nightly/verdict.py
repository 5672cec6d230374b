"""What a night says of each backend: what broke, what is known, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    failures: int = 0
    with_culprit: int = 0
    """New failures whose culprit a bisect found."""
    not_investigated: int = 0
    """New failures without a culprit that nobody investigated."""
    reason: str | None = None
    """Why the first of those was not investigated, if something prevented it."""
    actions: Mapping[Action, int] = field(default_factory=dict)


def verdicts_of(
    cases: Sequence[CaseResult], clusters: Sequence[FailureCluster]
) -> list[BackendVerdict]:
    """Return the verdicts, those with the most broken cases first."""
    by_backend: dict[str, list[CaseResult]] = {}
    for case in cases:
        by_backend.setdefault(case.backend, []).append(case)
    verdicts = []
    for backend, own in by_backend.items():
        names = {case.case for case in own}
        failures = [each for each in clusters if not names.isdisjoint(each.cases)]
        verdicts.append(_verdict(backend, own, failures))
    return sorted(verdicts, key=lambda one: (-one.broken, one.backend))


def action_of(cluster: FailureCluster, tracked: Collection[str] = ()) -> Action:
    """Return what to do about a new failure. tracked: ids of clusters with an issue."""
    if cluster.id in tracked:
        return Action.WAIT
    if cluster.is_investigated:
        return Action.FILE
    return Action.INVESTIGATE


def reason_of(cluster: FailureCluster) -> str | None:
    """Return why the investigation of a failure stopped, if something stopped it."""
    steps = (step for step in cluster.steps if step.status in ("left", "failed"))
    return next((step.reason for step in steps if step.reason), None)


def summed_up(
    verdict: BackendVerdict,
    clusters: Sequence[FailureCluster],
    others: Iterable[Action],
    tracked: Collection[str] = (),
) -> BackendVerdict:
    """Return a verdict with what is known of its new failures and what to do.

    clusters: the new failures. others: what to do besides. tracked: ids of clusters
    with an issue.
    """
    known = [(cluster, action_of(cluster, tracked)) for cluster in clusters]
    left = [
        cluster
        for cluster, action in known
        if action is Action.INVESTIGATE and not _has_culprit(cluster)
    ]
    reasons = filter(None, map(reason_of, left))
    actions = Counter([action for _, action in known])
    actions.update(others)
    return replace(
        verdict,
        failures=len(clusters),
        with_culprit=sum(_has_culprit(cluster) for cluster in clusters),
        not_investigated=len(left),
        reason=next(reasons, None),
        actions={action: actions[action] for action in Action if actions[action]},
    )


def _verdict(
    backend: str, cases: Sequence[CaseResult], clusters: Sequence[FailureCluster]
) -> BackendVerdict:
    verdict = BackendVerdict(
        backend,
        cases=len(cases),
        broken=sum(case.counts for case in cases),
        fixed=sum(case.change is CaseChangeKind.FIXED for case in cases),
    )
    return summed_up(verdict, clusters, _other_actions(cases))


def _other_actions(cases: Sequence[CaseResult]) -> Iterator[Action]:
    issues = {case.issue for case in cases if case.change is CaseChangeKind.KNOWN}
    yield from (Action.WAIT for issue in issues if issue)
    for case in cases:
        if case.status is Status.XPASS:
            yield Action.CLOSE
        elif case.change is CaseChangeKind.FLAKY:
            yield Action.LOOK


def _has_culprit(cluster: FailureCluster) -> bool:
    return cluster.culprit is not None and cluster.culprit.status is Answer.CULPRIT
