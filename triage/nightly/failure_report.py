"""A failure in all nights: when it came and went, what was found out about it, and what
to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from triage.investigate.result import ClusterKey, FailureCluster
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
    is_edited: bool
    """The input was edited just before, so that no compiler brought the failure."""
    came: range
    """The nights between which it came: from the first that may have brought it to its
    own first one.
    """


@dataclass(frozen=True)
class FailureLife:
    """All nights and cases of a failure in a track: of one signature that came in
    ranges which overlap.
    """

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
    def last(self) -> FailingRun:
        return max(self.runs, key=lambda failing: failing.run.last)

    @property
    def ended(self) -> FailingRun | None:
        """The run that ended last, once it is gone."""
        if self.open_runs:
            return None
        return max(
            self.runs,
            key=lambda each: each.after.first if each.after else each.run.last,
        )

    @cached_property
    def runs_of(self) -> Mapping[int, Sequence[StateRun]]:
        """The failing runs of each row."""
        runs: dict[int, list[StateRun]] = {}
        for failing in self.runs:
            runs.setdefault(failing.row, []).append(failing.run)
        return runs

    def has(self, row: int, night: int) -> bool:
        """Return whether a case has the failure in a night."""
        runs = self.runs_of.get(row, ())
        return any(run.first <= night <= run.last for run in runs)


def failure_lives(history: NightsHistory) -> tuple[FailureLife, ...]:
    """Return all failures: first the open ones, the newest of these first, then the
    known ones, then those that are gone.
    """
    runs: dict[tuple[Track, str], list[FailingRun]] = {}
    for number, row in enumerate(history.rows):
        for failing in _failing_runs(history, number):
            signature = history.signatures[failing.run.signature]
            runs.setdefault((row.track, signature), []).append(failing)
    groups = [
        (track, signature, group)
        for (track, signature), of_signature in runs.items()
        for group in _by_range(of_signature)
    ]
    groups.sort(key=lambda entry: (entry[2][0].run.first, *entry[:2]))
    numbers: Counter[ClusterKey] = Counter()
    lives = []
    for track, signature, group in groups:
        newest = max(group, key=lambda failing: failing.run.last)
        failure = history.failure_of(newest.row, newest.run.last)
        assert failure
        key = track.key_of(failure)
        numbers[key] += 1
        page = key.id
        if numbers[key] > 1:
            page += f"-{numbers[key]}"
        lives.append(FailureLife(track, signature, failure, tuple(group), page))
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


def _by_range(runs: Sequence[FailingRun]) -> list[list[FailingRun]]:
    """Group the runs of one signature by the ranges in which they came: the ranges of a
    group overlap, so that one change can have brought all of them.
    """
    groups: list[list[FailingRun]] = []
    ranges: list[range] = []
    for failing in sorted(runs, key=lambda failing: (failing.run.first, failing.row)):
        for number in reversed(range(len(groups))):  # the newest first
            start = max(ranges[number].start, failing.came.start)
            common = range(start, min(ranges[number].stop, failing.came.stop))
            if common:
                groups[number].append(failing)
                ranges[number] = common
                break
        else:
            groups.append([failing])
            ranges.append(failing.came)
    return groups


def _failing_runs(history: NightsHistory, row: int) -> Iterator[FailingRun]:
    """Yield the runs in which a row fails, those that differ only in what is expected
    as one.
    """
    tested: list[StateRun] = []
    for run in history.runs[row]:
        same = tested and tested[-1].failed and tested[-1].signature == run.signature
        if same and run.failed:
            tested[-1] = replace(run, first=tested[-1].first)
        elif run.status is not Status.UNTESTABLE:
            tested.append(run)
    neighbours = zip([None, *tested], tested, [*tested[1:], None], strict=False)
    for before, run, after in neighbours:
        if run.failed and run.signature:
            is_edited = before is not None and history.has_new_input(
                row, before.last, run.first
            )
            first = 0
            if not is_edited:
                first = _first_suspect(history, row, before, run)
            came = range(first, run.first + 1)
            yield FailingRun(row, run, before, after, is_edited, came)


def _first_suspect(
    history: NightsHistory, row: int, before: StateRun | None, run: StateRun
) -> int:
    """Return the first night whose toolchain may have brought a failing run; 0 if the
    compiler did not change, or nothing is known of the time before.
    """
    night = history.nights[run.first]
    first = 0
    if before:
        if run.flaky or history.nights[before.last].toolchain.is_same(night.toolchain):
            return 0
        first = before.last + 1
    if history.differs_on_baseline(row, run.first):
        for number in history.tracks[history.rows[row].track]:
            is_baseline = history.nights[number].toolchain.is_same(night.baseline)
            if first <= number < run.first and is_baseline:
                first = number + 1
    return first


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
    is_edited: bool = False
    """The input was edited just before, so that no compiler made the difference."""


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
    """The last toolchain without it; null if no result is older, or if the input was
    edited.
    """
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
    current = life.current
    came = seen_at(history, current.run.first, current.is_edited)
    to_do = None
    if life.state == "open" or (life.state == "known" and issue):
        command = _investigating_command(history, life, cluster.representative)
        to_do = failure_to_do(cluster, issue=issue, since=came.day, command=command)
    ended, gone = life.ended, None
    if ended and ended.after:
        night = ended.after.first
        is_edited = history.has_new_input(ended.row, ended.run.last, night)
        gone = seen_at(history, night, is_edited)
    return FailureReport(
        cluster=cluster,
        page=life.page,
        track=life.track.name,
        compiler=life.track.compiler,
        state=life.state,
        before=toolchain_before(history, current),
        came=came,
        first=seen_at(history, life.first.run.first),
        last=seen_at(history, life.last.run.last),
        gone=gone,
        issue=issue,
        to_do=to_do,
    )


def seen_at(history: NightsHistory, number: int, is_edited: bool = False) -> SeenAt:
    """Return a night. is_edited: the input was edited just before."""
    night = history.nights[number]
    return SeenAt(night.started[:10], night.toolchain, is_edited)


def toolchain_before(history: NightsHistory, failing: FailingRun) -> Revision | None:
    """Return the toolchain of the last night without a failure, or the baseline of its
    first night; None if the input was edited.
    """
    if failing.is_edited:
        return None
    if failing.before:
        return history.nights[failing.before.last].toolchain
    if history.differs_on_baseline(failing.row, failing.run.first):
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
    for number in (life.last.run.last, life.current.run.first):
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
    nights = np.array(history.tracks[life.track])
    part = np.ix_(np.array(life.rows), nights)
    signature = history.signatures.index(life.signature)
    has_failure = history.signature_numbers[history.failure_numbers[part]] == signature
    for number, row in enumerate(life.rows):
        in_run = [
            (run.first <= nights) & (nights <= run.last) for run in life.runs_of[row]
        ]
        has_failure[number] &= np.any(in_run, axis=0)
    for states, owned in zip(history.states[part].T, has_failure.T, strict=True):
        own = {status_in(int(state)) for state in states[owned]}
        others = {status_in(int(state)) for state in states[states > 0]} - own
        worst = max(own or others, key=_FROM_BEST_TO_WORST.index, default=None)
        yield worst, not own and worst in FAILING


def known_failures(
    history: NightsHistory,
    lives: Sequence[FailureLife],
    issues: Mapping[str, Mapping[str, str]],
) -> dict[str, KnownFailure]:
    """Return what nights found out about each failure, by its page.

    issues: by the start of a night and the id of a cluster in it.
    """
    by_key: dict[ClusterKey, list[FailureLife]] = {}
    for life in lives:
        by_key.setdefault(life.key, []).append(life)
    rows: dict[str, list[int]] = {}
    for number, row in enumerate(history.rows):
        rows.setdefault(row.case, []).append(number)

    def lives_in(night: int, key: ClusterKey, names: Iterable[str]) -> Iterator[str]:
        """Yield the pages of the failures that cases have in a night."""
        of_night = [
            row
            for name in names
            for row in rows.get(name, ())
            if history.states[row, night]
        ]
        for life in by_key.get(key, ()):
            if any(life.has(row, night) for row in of_night):
                yield life.page

    known: dict[str, KnownFailure] = {}
    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            # what was found out holds for the case that was investigated
            names = cluster.cases
            if cluster.representative:
                names = [cluster.representative, *cluster.confirmed]
            issue = issues.get(night.started, {}).get(cluster.id)
            for page in lives_in(number, cluster.key, names):
                known[page] = _with_cluster(known.get(page), cluster, number, issue)
        for case in night.cases:
            if case.failure and case.issue:
                key = case.key_of(case.failure)
                for page in lives_in(number, key, [case.case]):
                    empty = KnownFailure(key.cluster([]), number)
                    known[page] = replace(known.get(page, empty), issue=case.issue)
    return known


def _with_cluster(
    older: KnownFailure | None, cluster: FailureCluster, night: int, issue: str | None
) -> KnownFailure:
    """Add what a night found out to what earlier nights did."""
    if older is None:
        return KnownFailure(cluster, night, issue)
    issue = issue or older.issue
    if older.cluster.steps and not cluster.steps:
        return replace(older, issue=issue)
    return KnownFailure(_with_older_answers(cluster, older.cluster), night, issue)


def _with_older_answers(
    cluster: FailureCluster, older: FailureCluster
) -> FailureCluster:
    return replace(
        cluster,
        culprit=cluster.culprit or older.culprit,
        fix=cluster.fix or older.fix,
        owner=cluster.owner or older.owner,
    )
