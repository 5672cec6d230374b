"""A failure in all nights: when it came and went, what was found out about it, and what
to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from triage.investigate.result import (
    NEW_FAILURES,
    CaseChangeKind,
    ClusterKey,
    FailureCluster,
)
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import Failure, Status
from triage.model.revision import Revision
from triage.nightly.history import CaseHistory, NightsHistory, StateRun, Track
from triage.nightly.result import Night
from triage.nightly.verdict import ToDo, failure_to_do

_STATES = ("open", "known", "gone")
_COMPARED = (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)


@dataclass(frozen=True, slots=True)
class SeenAt:
    """A night in which a failure came, was seen, or was gone."""

    day: str
    toolchain: Revision
    is_edited: bool = False
    """The input was edited just before, so that no compiler made the difference."""


@dataclass(frozen=True, slots=True, eq=False)
class FailingRun:
    """Nights in which a case has a failure, with its results before and after."""

    case: CaseHistory
    run: StateRun
    before: StateRun | None
    after: StateRun | None
    """Not set while the failure is the last result that is known."""

    @property
    def first(self) -> int:
        return self.run.first

    @property
    def last(self) -> int:
        return self.run.last

    @property
    def is_new(self) -> bool:
        """Whether it was new in its first night: another result was known, or the night
        says so.
        """
        if self.before is None or self.run.is_edited:
            return self.run.change in NEW_FAILURES
        return self.run.change is not CaseChangeKind.KNOWN


@dataclass(eq=False)
class FailureLife:
    """All nights and cases of a failure in a track: of one signature that came in
    ranges which overlap. It is printed as its page shows it.
    """

    track: Track = field(metadata=UNPRINTED)
    runs: Sequence[FailingRun] = field(metadata=UNPRINTED)
    history: NightsHistory = field(metadata=UNPRINTED)
    failure: Failure = field(metadata=UNPRINTED)
    """As it was last seen."""
    page: str
    """Name of its page."""
    cluster: FailureCluster
    """What nights found out about it."""
    found_in: Night | None = field(default=None, metadata=UNPRINTED)
    """The night that found it out."""
    issue: str | None = None
    """The issue that a recipe names, or that was opened for it."""

    @in_json
    def track_(self) -> str:
        return self.track.name

    @in_json
    def compiler(self) -> str:
        return self.track.compiler

    @property
    def cases(self) -> Sequence[CaseHistory]:
        return list(dict.fromkeys(failing.case for failing in self.runs))

    @property
    def open_runs(self) -> Sequence[FailingRun]:
        """The runs that have not ended. Those that a recipe expects are left out,
        unless all are expected.
        """
        last = [failing for failing in self.runs if failing.after is None]
        is_unexpected = Status.FAILED in {failing.run.status for failing in last}
        if not is_unexpected:
            return last
        return [failing for failing in last if failing.run.status is Status.FAILED]

    @in_json
    def state(self) -> str:
        """`open`, `known` where every open case fails as its recipe expects, or
        `gone`.
        """
        if not self.open_runs:
            return "gone"
        return "open" if self.open_runs[0].run.status is Status.FAILED else "known"

    @property
    def is_new(self) -> bool:
        """Whether the last night of its track brought it to a case."""
        last = self.history.last_night(self.track)
        return any(run.is_new and run.first == last for run in self.open_runs)

    @property
    def current(self) -> FailingRun:
        """The run since which it is open; the first one where it is gone."""
        return min(self.open_runs or self.runs, key=lambda failing: failing.first)

    @in_json
    def before(self) -> Revision | None:
        """The toolchain of the last night without it, or the baseline of its first
        night; null if neither was tested, or the input was edited.
        """
        failing, nights = self.current, self.history.nights
        if failing.before and not failing.run.is_edited:
            return nights[failing.before.last].toolchain
        if failing.before is None and failing.run.change in _COMPARED:
            return nights[failing.first].baseline
        return None

    @in_json
    def came(self) -> SeenAt:
        """Since when it is open."""
        return self._seen_at(self.current.first, self.current.run.is_edited)

    @in_json
    def last(self) -> SeenAt:
        return self._seen_at(max(failing.last for failing in self.runs))

    @in_json
    def gone(self) -> SeenAt | None:
        """When the last of its cases had another result, once it is gone."""
        if self.open_runs:
            return None
        ends = [failing.after for failing in self.runs if failing.after]
        end = max(ends, key=lambda run: run.first)
        return self._seen_at(end.first, end.is_edited)

    @in_json
    def to_do(self) -> ToDo | None:
        """Null where nothing is to do."""
        if self.state == "gone" or (self.state == "known" and not self.issue):
            return None
        return failure_to_do(self.cluster, self.issue)

    def _seen_at(self, number: int, is_edited: bool = False) -> SeenAt:
        night = self.history.nights[number]
        return SeenAt(night.started[:10], night.toolchain, is_edited)

    def has(self, night: int, names: Collection[str]) -> bool:
        """Return whether one of these cases had the failure in a night."""
        return any(
            failing.case.case in names and failing.first <= night <= failing.last
            for failing in self.runs
        )

    def learn(self, cluster: FailureCluster, night: Night) -> None:
        """Take what a night found out, unless an earlier one found out more."""
        known, new = (
            (bool(each.steps), each.is_explained) for each in (self.cluster, cluster)
        )
        if not self.found_in or new >= known:
            self.cluster, self.found_in = cluster, night


def failure_lives(
    history: NightsHistory, issues: Mapping[str, Mapping[str, str]] | None = None
) -> list[FailureLife]:
    """Return all failures: first the open ones, the newest of these first, then the
    known ones, then those that are gone.

    issues: by the start of a night and a case that failed in it.
    """
    runs = defaultdict[tuple[Track, str], list[FailingRun]](list)
    for case in history.cases:
        for failing in _failing_runs(case):
            runs[case.track, failing.run.signature].append(failing)
    groups = [group for alike in runs.values() for group in _by_range(alike, history)]
    groups.sort(key=lambda group: (group[0].first, group[0].case.track))
    lives = defaultdict[ClusterKey, list[FailureLife]](list)
    for group in groups:
        track = group[0].case.track
        failure = max(group, key=lambda failing: failing.last).run.failure
        assert failure
        cluster = track.key_of(failure).cluster([], failure)
        alike = lives[cluster.key]
        page = f"{cluster.id}-{len(alike) + 1}" if alike else cluster.id
        alike.append(FailureLife(track, group, history, failure, page, cluster))
    _learn(history, lives, issues or {})
    return sorted(
        (life for alike in lives.values() for life in alike),
        key=lambda life: (
            _STATES.index(life.state),
            -life.current.first,
            -len(life.cases),
            life.failure.signature,
        ),
    )


def _failing_runs(case: CaseHistory) -> Iterator[FailingRun]:
    """Yield the runs in which a case fails, those that differ only in what is expected
    as one.
    """
    tested: list[StateRun] = []
    for run in filter(lambda run: run.tested, case.runs):
        last = tested[-1] if tested else run
        is_same = last.failed and run.failed and last.signature == run.signature
        if tested and is_same:
            tested[-1] = replace(
                run, first=last.first, change=last.change, is_edited=last.is_edited
            )
        else:
            tested.append(run)
    neighbours = zip([None, *tested], tested, [*tested[1:], None], strict=False)
    for before, run, after in neighbours:
        if run.failed and run.failure:
            yield FailingRun(case, run, before, after)


def _by_range(
    runs: Iterable[FailingRun], history: NightsHistory
) -> list[list[FailingRun]]:
    """Group the runs of one signature by the nights between which they came: those of a
    group overlap, so that one change can have brought all of them.
    """
    groups: list[list[FailingRun]] = []
    for failing in sorted(runs, key=lambda failing: failing.first):
        before, first = failing.before, failing.first
        suspect = 0  # the first night whose toolchain may have brought it
        if before and not failing.run.is_edited:
            old, new = (history.nights[at].toolchain for at in (before.last, first))
            suspect = 0 if old.is_same(new) else before.last + 1
        for group in reversed(groups):
            if suspect <= group[0].first:
                group.append(failing)
                break
        else:
            groups.append([failing])
    return groups


def _learn(
    history: NightsHistory,
    lives: Mapping[ClusterKey, Sequence[FailureLife]],
    issues: Mapping[str, Mapping[str, str]],
) -> None:
    """Add to each failure what nights found out about it."""
    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            # what was found out holds for the case that was investigated
            names = cluster.cases
            if cluster.representative:
                names = [cluster.representative, *cluster.confirmed]
            for life in lives.get(cluster.key, ()):
                if life.has(number, names):
                    life.learn(cluster, night)
        opened = issues.get(night.started, {})
        for case in night.cases:
            issue = case.issue or opened.get(case.case)
            alike = lives.get(case.key_of(case.failure), ()) if case.failure else ()
            for life in alike if issue else ():
                if life.has(number, [case.case]):
                    life.issue = issue
