"""The verdict of a night on each backend, what to do about each failure, and who does
it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from triage.bisect.result import Answer
from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.outcome import Status
from triage.model.revision import FamilyRef
from triage.toolchains.sources.base import fits_any
from triage.toolchains.sources.project import FILE, OwnerRule, load_project

_PROGRAMS = (".yaml", ".yml", ".mlir", ".mlirbc", ".onnx", ".py")


class Action(StrEnum):
    """An action for a person. The values are part of the JSON of a night."""

    FILE = "file"
    """File an issue: the failure was investigated, and its draft is written."""
    UPGRADE = "upgrade"
    """Use a newer release, which has the fix."""
    WAIT = "wait"
    """Wait for the issue that a recipe names for a known failure."""
    INVESTIGATE = "investigate"
    CLOSE = "close"
    """Close the known failure: the case passes."""
    LOOK = "look"
    """Find out why a case is flaky."""


@dataclass(frozen=True, slots=True)
class ToDo:
    """The one thing to do about a failure, or about a case."""

    action: Action
    cluster: str | None = None
    """The id of the failure."""
    case: str | None = None
    issue: str | None = None
    """The issue to wait for."""
    since: str | None = None
    """The day since which it fails, or the version since which the case passes or
    which has the fix.
    """
    command: str | None = None
    """A command line that investigates the failure, or shows the case."""
    reason: str | None = None
    """Why the failure is not investigated, if something prevented it."""


@dataclass(frozen=True, slots=True)
class BackendVerdict:
    """The verdict of a night on one backend. `failures` counts different new failures,
    each of one or more cases.
    """

    backend: str
    """Empty for compilers without backends."""
    cases: int
    broken: int
    """Cases that fail in a new way."""
    fixed: int
    untestable: int = 0
    """Cases that one of the toolchains could not test."""
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
        counts = BackendVerdict(
            backend,
            cases=len(own),
            broken=sum(case.is_new_failure for case in own),
            fixed=sum(case.change is CaseChangeKind.FIXED for case in own),
            untestable=sum(case.change is CaseChangeKind.UNTESTABLE for case in own),
        )
        verdicts.append(_with_failures(counts, failures, to_dos_of(own, failures)))
    return sorted(verdicts, key=lambda one: (-one.broken, one.backend))


def _with_failures(
    verdict: BackendVerdict, clusters: Sequence[FailureCluster], to_dos: Sequence[ToDo]
) -> BackendVerdict:
    """Add what is known of new failures, and what to do, to the counts of cases."""
    with_culprit = {
        cluster.id
        for cluster in clusters
        if cluster.culprit and cluster.culprit.status is Answer.CULPRIT
    }
    left = [
        each
        for each in to_dos
        if each.action is Action.INVESTIGATE and each.cluster not in with_culprit
    ]
    counts = Counter(each.action for each in to_dos)
    return replace(
        verdict,
        failures=len(clusters),
        with_culprit=len(with_culprit),
        not_investigated=len(left),
        reason=next((each.reason for each in left if each.reason), None),
        actions={action: counts[action] for action in Action if counts[action]},
    )


def to_dos_of(
    cases: Sequence[CaseResult], clusters: Sequence[FailureCluster]
) -> list[ToDo]:
    """Return what to do about each new failure, then about the other cases."""
    by_name = {case.case: case for case in cases}
    issues = {case.cluster: case.issue for case in cases if case.issue}
    found = []
    for cluster in clusters:
        command = None
        for name in filter(None, (cluster.representative, *cluster.cases)):
            if name in by_name:
                command = investigating_command(by_name[name])
                break
        issue = issues.get(cluster.id)
        found.append(failure_to_do(cluster, issue=issue, command=command))
    return [*found, *_other_to_dos(cases, {each.issue for each in found})]


def failure_to_do(
    cluster: FailureCluster,
    *,
    issue: str | None = None,
    since: str | None = None,
    command: str | None = None,
) -> ToDo:
    """Return what to do about a failure.

    issue: one that is open for it; since: the day since which it fails; command: one
    that investigates it.
    """
    if issue:
        return ToDo(Action.WAIT, cluster.id, issue=issue, since=since)
    if cluster.fixed_in:
        return ToDo(Action.UPGRADE, cluster.id, since=cluster.fixed_in.name)
    if cluster.is_investigated:
        return ToDo(Action.FILE, cluster.id)
    unfinished = (step for step in cluster.steps if step.status in ("left", "failed"))
    reason = next((step.reason for step in unfinished if step.reason), None)
    if cluster.culprit and cluster.culprit.after:
        reason = reason or "only its origin is known"
    return ToDo(Action.INVESTIGATE, cluster.id, command=command, reason=reason)


def investigating_command(case: CaseResult) -> str | None:
    """Return the command line that investigates a failing case, unless many cases come
    from the file.
    """
    source, new = case.source, case.toolchain.name
    old = case.baseline.toolchain.name
    if Path(source).suffix not in _PROGRAMS:
        return None
    words = ["triage", "nightly", source, "-t", new, "-b", old]
    return command_line([*words, "--investigate", "--out", "out"], source, new, old)


def command_line(words: Sequence[str], *values: str) -> str | None:
    """Return a command line for people to copy. None if one of its values, which
    another job may have written, would be read as an option.
    """
    if any(value.startswith("-") for value in values):
        return None
    return shlex.join(words)


def unexpected_pass_to_do(case: str, version: str) -> ToDo:
    """Return what to do about a case that passes since a version, although its recipe
    expects a failure.
    """
    return ToDo(Action.CLOSE, case=case, since=version)


def flaky_to_do(case: str) -> ToDo:
    """Return what to do about a flaky case."""
    command = command_line(["triage", "show", case], case)
    return ToDo(Action.LOOK, case=case, command=command)


def _other_to_dos(
    cases: Sequence[CaseResult], waiting: set[str | None]
) -> Iterator[ToDo]:
    """Yield what to do about cases without a new failure. waiting: the issues that are
    waited for already.
    """
    for case in cases:
        if case.status is Status.XPASS:
            yield unexpected_pass_to_do(case.case, case.toolchain.name)
        elif case.change is CaseChangeKind.FLAKY:
            yield flaky_to_do(case.case)
        elif case.change is CaseChangeKind.KNOWN and case.issue not in {None, *waiting}:
            waiting.add(case.issue)
            yield ToDo(Action.WAIT, case.cluster, issue=case.issue)


def owner_rules(family: str, project: Path | None) -> Sequence[OwnerRule]:
    """Return the rules for a compiler family. BadFiles if the file has mistakes.

    project: named by the user (default: `triage.yaml` in the current folder, if any).
    """
    path = project or Path(FILE)
    if project is None and not path.is_file():
        return ()
    found = load_project(path)
    is_for_family = found.compiler in (family, FamilyRef.parse(family).kind)
    return found.owners if is_for_family else ()


def with_owners(
    cases: Sequence[CaseResult],
    clusters: Sequence[FailureCluster],
    rules: Sequence[OwnerRule],
) -> list[FailureCluster]:
    """Return the failures with their owners."""
    suites = {case.case: case.suite for case in cases}
    owned = []
    for cluster in clusters:
        own = {suites[name] for name in cluster.cases if name in suites}
        owned.append(replace(cluster, owner=owner_of(cluster, own, rules)))
    return owned


def owner_of(
    cluster: FailureCluster, suites: Collection[str], rules: Sequence[OwnerRule]
) -> str | None:
    """Return the owner of a failure. What is known most exactly decides: the files of
    the culprit, then the pass and its files, the backend, the suites.
    """
    for key, names in _known_of(cluster, suites):
        for rule in reversed(rules):
            patterns = getattr(rule, key)
            if any(fits_any(name, patterns) for name in names):
                return rule.owner
    return None


def _known_of(
    cluster: FailureCluster, suites: Collection[str]
) -> Iterator[tuple[str, Collection[str]]]:
    """Yield what is known of a failure with the key of its patterns, the most exact
    first.
    """
    culprit, found = cluster.culprit, cluster.attribution
    if culprit and culprit.status is Answer.CULPRIT:
        yield "files", [path for each in culprit.suspects for path in each.files]
    if found:
        yield "passes", [suspect.name for suspect in found.suspects]
        yield "files", found.files
    if cluster.failure and cluster.failure.failing_pass:
        yield "passes", [cluster.failure.failing_pass]
    yield "backends", [cluster.backend]
    yield "suites", suites
