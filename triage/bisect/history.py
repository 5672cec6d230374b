"""What is known of cases along releases: their history, found with few compiles, and
what stored probes say without any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from packaging.version import Version

from triage.bisect.line import BisectRequest, Line
from triage.bisect.releases import release_line, releases_at_bounds
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import whole_search
from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.fields import UNPRINTED, in_json, key
from triage.model.outcome import (
    Exit,
    Failed,
    Failure,
    Passed,
    ProbeResult,
    Status,
    exit_for_results,
)
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True)
class StatusChange:
    """Two releases with different statuses and no probe between them."""

    before: Revision
    after: Revision
    from_: str = field(metadata=key("from"))
    to: str


@dataclass(frozen=True)
class History:
    """One case across releases, oldest first."""

    tested_case: Case = field(metadata=UNPRINTED)
    results: tuple[ProbeResult, ...]
    """Of the releases that were probed."""
    compiles: int
    """Without cache hits."""

    @in_json
    def case(self) -> str:
        return self.tested_case.name

    @in_json
    def recipe(self) -> str:
        return self.tested_case.recipe

    @in_json
    def changes(self) -> tuple[StatusChange, ...]:
        """Neighbours among the probed releases whose statuses differ: passed, failed or
        untestable.
        """
        return tuple(
            StatusChange(
                before.toolchain,
                after.toolchain,
                before.plain_status,
                after.plain_status,
            )
            for before, after in pairwise(self.results)
            if before.plain_status is not after.plain_status
        )

    @in_json
    def statuses(self) -> Mapping[str, Status]:
        """The plain status on each release that was probed."""
        return {result.toolchain.name: result.plain_status for result in self.results}

    @property
    def states(self) -> list[list[ProbeResult]]:
        """Neighbours with one status and, if they fail, one signature, oldest first."""
        groups = groupby(self.results, key=lambda result: result.state)
        return [list(group) for _, group in groups]


@dataclass(frozen=True)
class Histories:
    """The result of `triage history`."""

    cases: Sequence[History]

    @property
    def exit(self) -> Exit:
        """OK also where cases fail: a history says how each ended."""
        code = exit_for_results(result for row in self.cases for result in row.results)
        if code in (Exit.FAILURE, Exit.INCONCLUSIVE):
            return Exit.OK
        return code


def histories(
    engine: Engine,
    cases: Sequence[Case],
    refs: Sequence[ToolchainRef],
) -> tuple[History, ...]:
    """Find the history of every case along releases, oldest first.

    Known results, the ends and the releases that a recipe names come first. Two
    neighbours among them that differ hide a change, which halving narrows down. Two
    that agree may hide a short window, which is searched where other cases change.
    """
    requests = [BisectRequest(engine, case) for case in cases]
    lines = {request.case.name: release_line(request, refs) for request in requests}
    wanted = []
    for case in cases:
        named = {0, len(refs) - 1, *releases_at_bounds(case, refs)}
        for index, ref in enumerate(refs):
            if index in named or engine.cached_probe(ProbeJob(case, ref)):
                wanted.append((index, case.name))
    while wanted:
        jobs = [
            ProbeJob(lines[name].request.case, refs[index])
            for index, name in sorted(wanted)
        ]
        for probe in engine.probe_all(jobs, "history"):
            lines[probe.case.name].add(probe)
        wanted = [
            (index, name)
            for name, line in lines.items()
            for index in line.gap_middles()
        ] or _where_others_change(lines)
    return tuple(_history_of(line) for line in lines.values())


def _where_others_change(lines: Mapping[str, Line]) -> list[tuple[int, str]]:
    """Return the release next to most changes, for each case that was not probed there:
    a broken release is seldom broken for one case only. Nothing once half of all cases
    and releases would be probed.
    """
    room = sum(len(line) / 2 - len(line.last_outcomes) for line in lines.values())
    counts = Counter(
        index
        for line in lines.values()
        for pair in line.differing_neighbours
        for index in pair
    )
    for index, _ in counts.most_common():
        missing = [
            (index, name)
            for name, line in lines.items()
            if index not in line.last_outcomes
        ]
        if 0 < len(missing) <= room:
            return missing
    return []


def _history_of(line: Line) -> History:
    probes = [line.probes[index][-1] for index in line.last_outcomes]
    compiles = sum(not probe.cached and probe.measured.seconds > 0 for probe in probes)
    return History(line.request.case, tuple(map(result_of, probes)), compiles)


# What is stored


def stored_failures(engine: Engine, case: Case) -> tuple[Failure, ...]:
    """Return the failures of a case on the newest release that has any; compile
    nothing.
    """
    for ref in reversed(engine.registry.installed_releases(case.compiler)):
        probe = engine.cached_probe(ProbeJob(case, ref))
        if probe and isinstance(probe.outcome, Failed):
            return (probe.outcome.failure, *probe.outcome.others)
    return ()


@dataclass(frozen=True)
class KnownReleases:
    """Neighbouring releases on which a case ended alike. outcome: passed, failed,
    untestable, or not tried.
    """

    outcome: str
    first: Revision
    last: Revision


def known_releases(
    engine: Engine, case: Case, others: Sequence[ToolchainRef]
) -> tuple[KnownReleases, ...]:
    """Return how a case ends on all releases and on other toolchains. Neighbours that
    ended alike are joined, unless a release may lie between two.
    """
    line, is_complete = _stored_line(engine, case, others)
    releases: list[KnownReleases] = []
    for index, candidate in enumerate(line.candidates):
        outcomes = line.outcomes(index)
        status = outcomes[-1].plain_status if outcomes else "not tried"
        if is_complete and releases and releases[-1].outcome == status:
            releases[-1] = replace(releases[-1], last=candidate.revision)
        else:
            entry = KnownReleases(status, candidate.revision, candidate.revision)
            releases.append(entry)
    return tuple(releases)


def known_range(
    engine: Engine, case: Case, ends: Sequence[ToolchainRef], failure: Failure
) -> Bisection | None:
    """Return what is known of a failure for a bisect that was not finished; None if the
    case passes nowhere. ends: toolchains, of which the last one has the failure.
    """
    line, _ = _stored_line(engine, case, ends)
    bad = line.indices.get(ends[-1].revision.name)
    if bad is None:  # it is not a release
        return None
    search = whole_search(line).for_failure(failure)
    passing = line.indices_of(Passed)
    older = [index for index in passing if index < bad]
    newer = [index for index in passing if index > bad]
    changes = []
    if older:
        changes.append(replace(search, first=older[-1], last=bad))
    if newer:
        fix = BisectKind.FIX
        changes.append(replace(search, first=bad, last=newer[0], kind=fix))
    known = [change.result(change.belief()).change for change in changes]
    if not known:
        return None
    fixed = known[-1] if len(known) > 1 else None
    kind = changes[0].kind
    return Bisection(case.name, kind, known[0], fixed=fixed, failure=failure)


def _stored_line(
    engine: Engine, case: Case, others: Sequence[ToolchainRef]
) -> tuple[Line, bool]:
    """Return all releases and other toolchains with the stored probes of a case, and
    whether there is no other release.
    """
    registry = engine.registry
    try:
        releases = registry.listed_releases(case.compiler)
        is_complete = True
    except (BadInput, EnvironmentFailure):  # it has none, or there is no network
        releases = registry.installed_releases(case.compiler)
        is_complete = False
    refs = [*releases, *(ref for ref in others if ref.release)]
    by_name = {ref.revision.name: ref for ref in refs}
    ordered = [by_name[name] for name in sorted(by_name, key=Version)]
    line = release_line(BisectRequest(engine, case), ordered)
    for ref in ordered:
        probe = engine.cached_probe(ProbeJob(case, ref))
        if probe:
            line.add(probe)
    return line, is_complete
