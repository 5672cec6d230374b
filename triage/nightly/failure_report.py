"""A failure in all nights: when it came and went, what was found out about it, and what
to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from triage.investigate.result import ClusterKey, FailureCluster, text_id
from triage.model.outcome import FAILING, PASSING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.history import NightsHistory, StateRun, Track, status_in
from triage.nightly.verdict import ToDo, failure_to_do, investigating_command

_FROM_BEST_TO_WORST = (Status.UNTESTABLE, *PASSING, Status.XFAIL, Status.FAILED)
_STATES = ("open", "known", "gone")


@dataclass(frozen=True, slots=True)
class FailingRun:
    """Nights in which a case has a failure, with its results before and after."""

    row: int
    run: StateRun
    before: StateRun | None
    after: StateRun | None
    """Not set while the failure is the last result that is known."""


@dataclass(frozen=True)
class FailureLife:
    """All nights and cases of one signature in a track."""

    track: Track
    signature: str
    failure: Failure
    """As it was last seen."""
    runs: tuple[FailingRun, ...]
    page: str
    """Name of its page."""

    @property
    def key(self) -> ClusterKey:
        return self.track.key_of(self.failure)

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(failing.row for failing in self.runs))

    @cached_property
    def open_runs(self) -> tuple[FailingRun, ...]:
        """The runs that have not ended. Those that a recipe expects are left out,
        unless all are expected.
        """
        last = [failing for failing in self.runs if failing.after is None]
        unexpected = [each for each in last if each.run.status is Status.FAILED]
        return tuple(unexpected or last)

    @property
    def state(self) -> str:
        """`open`, `known` where every open case fails as its recipe expects, or
        `gone`.
        """
        if not self.open_runs:
            return "gone"
        if self.open_runs[0].run.status is Status.FAILED:
            return "open"
        return "known"

    @property
    def first(self) -> FailingRun:
        return min(self.runs, key=lambda failing: failing.run.first)

    @property
    def current(self) -> FailingRun:
        """The run since which it is open; the first one where it is gone."""
        return min(self.open_runs or self.runs, key=lambda failing: failing.run.first)

    @property
    def last(self) -> int:
        return max(failing.run.last for failing in self.runs)

    @property
    def gone(self) -> int | None:
        """The first night without it, once it is gone."""
        if self.open_runs:
            return None
        return max(failing.after.first for failing in self.runs if failing.after)


def failure_lives(history: NightsHistory) -> tuple[FailureLife, ...]:
    """Return all failures: first the open ones, the newest of these first, then the
    known ones, then those that are gone.
    """
    found: dict[tuple[Track, str], list[FailingRun]] = {}
    for number, row in enumerate(history.rows):
        for failing in _failing_runs(number, history.runs[number]):
            signature = history.signatures[failing.run.signature]
            found.setdefault((row.track, signature), []).append(failing)
    tracks_with: Counter[ClusterKey] = Counter()
    lives = []
    for (track, signature), runs in sorted(found.items()):
        newest = max(runs, key=lambda failing: failing.run.last)
        failure = history.failure_of(newest.row, newest.run.last)
        assert failure
        key = track.key_of(failure)
        tracks_with[key] += 1
        page = key.id
        if tracks_with[key] > 1:
            page += f"-{tracks_with[key]}"
        lives.append(FailureLife(track, signature, failure, tuple(runs), page))
    return tuple(
        sorted(
            lives,
            key=lambda life: (
                _STATES.index(life.state),
                -life.current.run.first,
                -len(life.rows),
                life.signature,
            ),
        )
    )


def _failing_runs(row: int, runs: Sequence[StateRun]) -> Iterator[FailingRun]:
    """Yield the runs in which a row fails, those that differ only in what is expected
    as one.
    """
    tested: list[StateRun] = []
    for run in runs:
        same = tested and tested[-1].failed and tested[-1].signature == run.signature
        if same and run.failed:
            tested[-1] = replace(run, first=tested[-1].first)
        elif run.status is not Status.UNTESTABLE:
            tested.append(run)
    neighbours = zip([None, *tested], tested, [*tested[1:], None], strict=False)
    for before, run, after in neighbours:
        if run.failed and run.signature:
            yield FailingRun(row, run, before, after)


@dataclass(frozen=True)
class KnownFailure:
    """A failure as nights investigated it."""

    cluster: FailureCluster
    night: int = 0
    """The night that the cluster is from."""
    issue: str | None = None
    """The issue that a recipe names, or that was opened for the failure."""


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


def failure_report(
    history: NightsHistory, life: FailureLife, known: KnownFailure | None
) -> FailureReport:
    """Return what is known of a failure in a track."""
    cluster, issue = life.key.cluster([], life.failure), None
    if known:
        cluster, issue = known.cluster, known.issue
    came = _seen_at(history, life.current.run.first)
    to_do = None
    if life.state == "open" or (life.state == "known" and issue):
        command = _investigating_command(history, life, cluster.representative)
        to_do = failure_to_do(cluster, issue=issue, since=came.day, command=command)
    return FailureReport(
        cluster=cluster,
        page=life.page,
        track=life.track.name,
        compiler=life.track.compiler,
        state=life.state,
        before=toolchain_before(history, life.current),
        came=came,
        first=_seen_at(history, life.first.run.first),
        last=_seen_at(history, life.last),
        gone=None if life.gone is None else _seen_at(history, life.gone),
        issue=issue,
        to_do=to_do,
    )


def _seen_at(history: NightsHistory, number: int) -> SeenAt:
    night = history.nights[number]
    return SeenAt(night.started[:10], night.toolchain)


def toolchain_before(history: NightsHistory, failing: FailingRun) -> Revision | None:
    """Return the toolchain of the last night without a failure, or the baseline of its
    first night.
    """
    if failing.before:
        return history.nights[failing.before.last].toolchain
    if history.is_new_failure(failing.row, failing.run.first):
        return history.nights[failing.run.first].baseline
    return None


def _investigating_command(
    history: NightsHistory, life: FailureLife, representative: str | None
) -> str | None:
    """Return the command line that investigates a case with the failure.

    It comes from the last night of the failure, or else from the night since which it
    is open. The representative case of the cluster is preferred.
    """
    names = {history.rows[row].case for row in life.rows}
    for number in (life.last, life.current.run.first):
        cases = [
            case
            for case in history.nights[number].cases
            if case.case in names and case.is_new_failure
        ]
        cases.sort(key=lambda case: case.case != representative)
        for case in cases:
            command = investigating_command(case)
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
    signature = history.signatures.index(life.signature)
    has_failure = history.signature_numbers[history.failure_numbers[part]] == signature
    for states, owned in zip(history.states[part].T, has_failure.T, strict=True):
        own = {status_in(int(state)) for state in states[owned]}
        others = {status_in(int(state)) for state in states[states > 0]} - own
        worst = max(own or others, key=_FROM_BEST_TO_WORST.index, default=None)
        yield worst, not own and worst in FAILING


def known_failures(
    history: NightsHistory, issues: Mapping[str, str]
) -> dict[ClusterKey, KnownFailure]:
    """Return what nights found out about each failure. issues: by the id of their
    cluster.
    """
    known: dict[ClusterKey, KnownFailure] = {}
    oldest: dict[str, ClusterKey] = {}
    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            key = cluster.key
            # an issue that an older version stored by the signature is that of its
            # first failure
            old_id = key.id
            if oldest.setdefault(key.signature, key) == key:
                old_id = text_id(key.signature)
            issue = issues.get(key.id, issues.get(old_id))
            before = known.get(key)
            if before is None:
                known[key] = KnownFailure(cluster, number, issue)
            elif cluster.steps or not before.cluster.steps:
                whole = _with_older_answers(cluster, before.cluster)
                known[key] = KnownFailure(whole, number, issue)
        for case in night.cases:
            if case.failure and case.issue:
                key = case.key_of(case.failure)
                empty = KnownFailure(key.cluster([]), number)
                known[key] = replace(known.get(key, empty), issue=case.issue)
    return known


def _with_older_answers(
    cluster: FailureCluster, older: FailureCluster
) -> FailureCluster:
    return replace(
        cluster,
        culprit=cluster.culprit or older.culprit,
        fix=cluster.fix or older.fix,
        owner=cluster.owner or older.owner,
    )
