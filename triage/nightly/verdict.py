"""The verdict of a night on each backend, what to do about each failure, and who does
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from triage.bisect.result import Answer
from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.errors import BadFiles, BadInput
from triage.nightly.summary import BackendVerdict

if TYPE_CHECKING:  # slow to import
    from triage.toolchains.project import OwnerRule


class Action(StrEnum):
    """An action for a person. The values are part of the JSON of a night."""

    FILE = "file"
    """File an issue: the failure was investigated, and its draft is written."""
    UPGRADE = "upgrade"
    """Use a newer release, which has the fix."""
    WAIT = "wait"
    """Wait for the issue that is open."""
    INVESTIGATE = "investigate"


@dataclass(frozen=True, slots=True)
class ToDo:
    """The one thing to do about a failure."""

    action: Action
    cluster: str
    """The id of the failure."""
    issue: str | None = None
    """The issue to wait for."""
    since: str | None = None
    """The version that has the fix."""


def verdicts_of(
    cases: Sequence[CaseResult],
    clusters: Sequence[FailureCluster],
    slower: Collection[str],
) -> list[BackendVerdict]:
    """Return the verdicts, those with the most broken cases first. slower: names of
    cases.
    """
    by_backend: dict[str, list[CaseResult]] = {}
    for case in cases:
        by_backend.setdefault(case.backend, []).append(case)
    verdicts = []
    for backend, members in by_backend.items():
        names = {case.case for case in members}
        failures = [
            failure for failure in clusters if not names.isdisjoint(failure.cases)
        ]
        changes = Counter(case.change for case in members)
        verdict = BackendVerdict(
            backend,
            cases=len(members),
            broken=sum(case.is_new_failure for case in members),
            fixed=changes[CaseChangeKind.FIXED],
            untestable=changes[CaseChangeKind.UNTESTABLE],
            failures=len(failures),
            with_culprit=sum(map(_has_culprit, failures)),
            slower=len(names.intersection(slower)),
        )
        verdicts.append(verdict)
    return sorted(verdicts, key=lambda verdict: (-verdict.broken, verdict.backend))


def _has_culprit(cluster: FailureCluster) -> bool:
    return bool(cluster.culprit and cluster.culprit.status is Answer.CULPRIT)


def failure_to_do(cluster: FailureCluster, issue: str | None = None) -> ToDo:
    """Return what to do about a failure. issue: one that is open for it."""
    if issue:
        return ToDo(Action.WAIT, cluster.id, issue=issue)
    if cluster.fixed_in:
        return ToDo(Action.UPGRADE, cluster.id, since=cluster.fixed_in.name)
    if cluster.is_investigated:
        return ToDo(Action.FILE, cluster.id)
    return ToDo(Action.INVESTIGATE, cluster.id)


def owner_rules(family: str) -> Sequence[OwnerRule]:
    """Return the rules for a compiler family in the `triage.yaml` of the current
    folder, if any. BadFiles if the file has mistakes.
    """
    from triage.toolchains.project import find_project

    try:
        return find_project(family, Path()).owners
    except BadFiles:
        raise
    except BadInput:  # no file is about the family
        return ()


def with_owners(
    cases: Sequence[CaseResult],
    clusters: Sequence[FailureCluster],
    rules: Sequence[OwnerRule],
) -> list[FailureCluster]:
    """Return the failures with their owners."""
    suites = {case.case: case.suite for case in cases}
    owned = []
    for cluster in clusters:
        names = {suites[name] for name in cluster.cases if name in suites}
        owned.append(replace(cluster, owner=owner_of(cluster, names, rules)))
    return owned


def owner_of(
    cluster: FailureCluster, suites: Collection[str], rules: Sequence[OwnerRule]
) -> str | None:
    """Return the owner of a failure by the rules of the project file: the last one that
    fits a file of its culprit, a pass, its backend or a suite.
    """
    from triage.toolchains.sources import fits_any

    facts: dict[str, list[str]] = {
        "files": [],
        "passes": [],
        "backends": [cluster.backend],
        "suites": list(suites),
    }
    if cluster.culprit and _has_culprit(cluster):
        for suspect in cluster.culprit.suspects:
            facts["files"] += suspect.files
    if cluster.attribution:
        facts["passes"] += [suspect.name for suspect in cluster.attribution.suspects]
    if cluster.failure and cluster.failure.failing_pass:
        facts["passes"].append(cluster.failure.failing_pass)
    for rule in reversed(rules):
        for key, names in facts.items():
            if any(fits_any(name, getattr(rule, key)) for name in names):
                return rule.owner
    return None
