"""Compare the results of a case on two toolchains, group the new failures, with their
owners, and do so for the shards of a night together.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
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
    MACHINE_CAUSES,
    PASSING,
    Cause,
    Probe,
    ProbeResult,
    Status,
)
from triage.model.revision import ToolchainKind
from triage.nightly.history import NightsHistory
from triage.nightly.result import Night
from triage.recipes.expectations import expectation_for
from triage.toolchains.home import disk_errors
from triage.toolchains.project import OwnerRule, find_project, matches_any

_FOLDERS = ("issues", "logs", "reproducers")
_SHARD = re.compile("([0-9]{1,4})/([0-9]{1,4})")

EarlierNights = Callable[[], NightsHistory]
"""Reads the stored nights."""


def case_result(
    baseline: Probe, new: Probe, source: str = "", input_hash: str = ""
) -> CaseResult:
    """Return the result of one case of a night. source: the name of its recipe's
    file.
    """
    case = new.case
    old = result_of(baseline)
    result = result_of(new)
    expectation = expectation_for(case, new.version, result.failure)
    return CaseResult(
        **vars(result),
        suite=suite_of(case),
        compiler=case.compiler,
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
        if baseline.cause in (*MACHINE_CAUSES, Cause.INTERNAL):
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
    files = list[str]()
    passes = list[str]()
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
            if any(matches_any(name, patterns) for name in names):
                return rule.owner
    return None


def shard(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """Return the cases of shard `I/N`, I from 1: every N-th case; all without a text.
    Raises BadInput for another text.
    """
    number, count = _parse_shard(text)
    return tuple(cases[number - 1 :: count])


def _parse_shard(text: str | None) -> tuple[int, int]:
    match = _SHARD.fullmatch(text or "1/1")
    if match:
        number, count = map(int, match.groups())
        if 1 <= number <= count:
            return number, count
    raise BadInput(f"--shard {text!r}: write I/N with I from 1 to N, for example 1/4")


def merge(shards: Iterable[Night], earlier: EarlierNights) -> Night:
    """Return one night of all shards, in the order of the recipes; a partial one if a
    shard is missing.

    earlier: reads the stored nights. Raises BadInput for shards of different nightlies,
    and for a case that is in two of them.
    """
    nights = sorted(shards, key=lambda night: _parse_shard(night.shard))
    # a shard of more shards than cases knows no compiler
    tested = [night for night in nights if night.cases] or nights
    if len({(night.compiler, night.toolchain, night.baseline) for night in tested}) > 1:
        raise BadInput(
            "these shards do not belong together; run all with the same two revisions, "
            "such as nightly:2025-06-04"
        )
    stopped = [f"{night.shard}: {night.stopped}" for night in nights if night.stopped]
    count = max(_parse_shard(night.shard)[1] for night in nights)
    if len(nights) < count:
        stopped.append(f"{len(nights)} of {count} shards are there")
    planned = _recipe_order(nights)
    order = {name: index for index, name in enumerate(planned)}
    cases = [
        with_earlier_nights(case, night.kind, earlier)
        for night in nights
        for case in night.cases
    ]
    cases.sort(key=lambda case: order.get(case.case, len(order)))
    times = [row for night in nights for row in night.times]
    return replace(
        tested[0],
        started=min(night.started for night in nights),
        seconds=max(night.seconds for night in nights),
        compiles=sum(night.compiles for night in nights),
        cached=sum(night.cached for night in nights),
        shard=None,
        planned=planned,
        cases=cases,
        clusters=_join_clusters(nights, cases),
        times=sorted(times, key=lambda row: order.get(row.case, 0)),
        stopped="; ".join(stopped) or None,
        strict=any(night.strict for night in nights),
        sealed=all(night.sealed for night in nights),
        reports={},
    )


def _recipe_order(nights: Sequence[Night]) -> list[str]:
    """Return all cases in the order of the recipes: every N-th is a shard's. BadInput
    for a case that is in two shards.
    """
    rounds = zip_longest(*(night.planned for night in nights))
    names = [name for names in rounds for name in names if name is not None]
    if len(set(names)) < len(names):
        raise BadInput(
            "a case is in two shards; pass each shard of one nightly once, and the "
            "same recipes to all"
        )
    return names


def _join_clusters(
    nights: Sequence[Night], cases: Sequence[CaseResult]
) -> list[FailureCluster]:
    """Return the new failures of all shards. Those with one signature and one culprit
    are one; what was found out comes from the first shard that found it out.
    """
    clusters = [cluster for night in nights for cluster in night.clusters]
    clusters.sort(key=lambda cluster: not _changed_at(cluster))
    joined = []
    for whole in clusters_of(cases):
        parts: dict[str, list[FailureCluster]] = {}
        for cluster in clusters:
            if cluster.key == whole.key:
                culprit = _changed_at(cluster) or next(iter(parts), "")
                parts.setdefault(culprit, []).append(cluster)
        for number, alike in enumerate(parts.values(), 1):
            names = {name for cluster in alike for name in cluster.cases}
            members = [name for name in whole.cases if name in names]
            identity = whole.id if number == 1 else f"{whole.id}.{number}"
            bisected = [
                name
                for cluster in alike
                if _changed_at(cluster)
                for name in cluster.bisected_cases
            ]
            if members:
                part = replace(alike[0], id=identity, cases=members)
                joined.append(replace(part, confirmed=bisected[1:]))
    return joined


def _changed_at(cluster: FailureCluster) -> str:
    """Return the revision that changed the cases, as far as a bisect knows."""
    if cluster.culprit and cluster.culprit.after:
        return cluster.culprit.after.name
    return ""


def copy_files(folders: Sequence[Path], out: Path) -> None:
    """Copy drafts, logs and reproducers next to the joined reports. Raises BadInput for
    a link or a pipe in a shard.
    """
    for folder in folders:
        if out.resolve() == folder.resolve():
            raise BadInput(f"--out {out} is the folder of a shard; pass another one")
        for path in folder.rglob("*"):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise BadInput(f"{path} is a link or a pipe; no nightly writes one")
    with disk_errors(f"write the reports to {out}"):
        # of files with one name the first shard's stays, as its cluster does
        for folder in reversed(folders):
            for name in _FOLDERS:
                if (folder / name).is_dir():
                    shutil.copytree(folder / name, out / name, dirs_exist_ok=True)
