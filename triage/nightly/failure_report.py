"""What all nights know of a failure: when it came and went, what was found out about
it, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from triage.investigate.result import ClusterKey, FailureCluster, text_id
from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nightly.history import NightsHistory, status_in
from triage.nightly.trends import FailingRun, FailureLife
from triage.nightly.verdict import ToDo, command_for, failure_to_do

# how much a status says: a failure more than a pass, a pass more than nothing
_ORDER = (Status.UNTESTABLE, *PASSING, Status.XFAIL, Status.FAILED)


@dataclass(frozen=True)
class KnownFailure:
    """A failure as nights investigated it."""

    cluster: FailureCluster
    night: int = 0
    """The night that the cluster is from."""
    tracker: str | None = None
    """The issue that a recipe names, or that was opened for it."""


@dataclass(frozen=True, slots=True)
class SeenAt:
    """A night in which a failure came, was seen, or was gone."""

    day: str
    toolchain: Revision


@dataclass(frozen=True)
class FailureReport:
    """A failure of one track, as its page shows it."""

    cluster: FailureCluster
    page: str
    """The name of its page."""
    track: str
    compiler: str
    state: str
    """`open`, `known` or `gone`."""
    before: Revision | None
    """The last toolchain without it; null if no result is older."""
    came: SeenAt
    """Since when it is open."""
    first: SeenAt
    """When it was first seen."""
    last: SeenAt
    gone: SeenAt | None
    issue: str | None
    to_do: ToDo | None
    """Null where nothing is to do."""


def report_of(
    history: NightsHistory, life: FailureLife, known: KnownFailure | None
) -> FailureReport:
    """Return what is known of a failure in a track."""
    if known:
        cluster, issue = known.cluster, known.tracker
    else:
        cluster, issue = life.key.cluster([], life.kind), None

    def seen(number: int) -> SeenAt:
        night = history.nights[number]
        return SeenAt(night.started[:10], night.toolchain)

    came = seen(life.current.run.first)
    to_do = None
    if life.state == "open" or (life.state == "known" and issue):
        command = _command(history, life, cluster.representative)
        to_do = failure_to_do(cluster, issue=issue, since=came.day, command=command)
    return FailureReport(
        cluster=cluster,
        page=life.page,
        track=life.track.name,
        compiler=life.track.compiler,
        state=life.state,
        before=before_of(history, life.current),
        came=came,
        first=seen(life.first.run.first),
        last=seen(life.last),
        gone=None if life.gone is None else seen(life.gone),
        issue=issue,
        to_do=to_do,
    )


def before_of(history: NightsHistory, failing: FailingRun) -> Revision | None:
    """Return the toolchain of the last night without a failure, or the baseline of its
    first night.
    """
    if failing.before:
        return history.nights[failing.before.last].toolchain
    if history.regressed(failing.row, failing.run.first):
        return history.nights[failing.run.first].baseline
    return None


def _command(
    history: NightsHistory, life: FailureLife, representative: str | None
) -> str | None:
    """Return the command to continue with, for a case with a new failure.

    It comes from the last night of the failure, or else from the night since which it
    is open. The representative case of the cluster is preferred.
    """
    names = {history.rows[row][1] for row in life.rows}
    for number in (life.last, life.current.run.first):
        night = history.nights[number]
        cases = [case for case in night.cases if case.case in names and case.counts]
        cases.sort(key=lambda case: case.case != representative)
        for case in cases:
            command = command_for(case)
            if command:
                return command
    return None


def states_over_nights(
    history: NightsHistory, life: FailureLife
) -> Iterator[tuple[Status | None, bool]]:
    """Yield for each night of the track the worst status of the failure's cases, and
    whether they fail in another way. The status is None in a night that ran no case.
    """
    part = np.ix_(life.rows, history.tracks[life.track])
    number = history.signatures.index(life.signature)
    is_own = history.signature_of[history.failures[part]] == number
    for states, owned in zip(history.states[part].T, is_own.T, strict=True):
        own = {status_in(int(state))[0] for state in states[owned]}
        others = {status_in(int(state))[0] for state in states[states > 0]} - own
        worst = max(own or others, key=_ORDER.index, default=None)
        yield worst, not own and worst in FAILING


def known_failures(
    history: NightsHistory, issues: Mapping[str, str]
) -> dict[ClusterKey, KnownFailure]:
    """Return what nights found out about each failure. issues: by the id of their
    cluster.
    """
    known: dict[ClusterKey, KnownFailure] = {}
    # an issue that an older version stored by the signature is that of its first
    # failure
    oldest: dict[str, ClusterKey] = {}
    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            key, signature = cluster.key, cluster.signature
            if oldest.setdefault(signature, key) == key:
                own_id = text_id(signature)
            else:
                own_id = key.id
            before, tracker = known.get(key), issues.get(key.id, issues.get(own_id))
            if before is None:
                known[key] = KnownFailure(cluster, number, tracker)
            elif cluster.steps or not before.cluster.steps:
                older = before.cluster
                cluster = replace(
                    cluster,
                    culprit=cluster.culprit or older.culprit,
                    fix=cluster.fix or older.fix,
                    owner=cluster.owner or older.owner,
                )
                known[key] = KnownFailure(cluster, number, tracker)
        for case in night.cases:
            if case.failure and case.issue:
                key = case.key_of(case.failure)
                empty = KnownFailure(key.cluster([]), number)
                known[key] = replace(known.get(key, empty), tracker=case.issue)
    return known
