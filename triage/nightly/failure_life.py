"""A failure in all nights: when it came and went, what was found out about it, and what
to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from triage.investigate.result import CaseChangeKind, ClusterKey, FailureCluster
from triage.model.fields import UNPRINTED, in_json
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


@dataclass(eq=False)
class FailureLife:
    """All nights and cases of a failure in a track: of one signature that came in
    ranges which overlap. It is printed as its page shows it.
    """

    track: Track = field(metadata=UNPRINTED)
    runs: Sequence[StateRun] = field(metadata=UNPRINTED)
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

    @property
    def cases(self) -> Sequence[CaseHistory]:
        return list(dict.fromkeys(run.case for run in self.runs))

    @property
    def open_runs(self) -> Sequence[StateRun]:
        """The runs that have not ended. Those that a recipe expects are left out,
        unless all are expected.
        """
        last = [run for run in self.runs if run.after is None]
        return [run for run in last if run.status is Status.FAILED] or last

    @in_json
    def state(self) -> str:
        """`open`, `known` where every open case fails as its recipe expects, or
        `gone`.
        """
        if not self.open_runs:
            return "gone"
        return "open" if self.open_runs[0].status is Status.FAILED else "known"

    @property
    def is_new(self) -> bool:
        """Whether the last night of its track brought it to a case."""
        last = self.history.last_night(self.track)
        return any(run.is_new and run.first == last for run in self.open_runs)

    @property
    def current(self) -> StateRun:
        """The run since which it is open; the first one where it is gone."""
        return min(self.open_runs or self.runs, key=lambda run: run.first)

    @in_json
    def before(self) -> Revision | None:
        """The toolchain of the last night without it, or the baseline of its first
        night; null if neither was tested, or the input was edited.
        """
        run, nights = self.current, self.history.nights
        if run.before and not run.is_edited:
            return nights[run.before.last].toolchain
        if run.before is None and run.change in _COMPARED:
            return nights[run.first].baseline
        return None

    @in_json
    def came(self) -> SeenAt:
        """Since when it is open."""
        return self._seen_at(self.current.first, self.current.is_edited)

    @in_json
    def last(self) -> SeenAt:
        return self._seen_at(max(run.last for run in self.runs))

    @in_json
    def gone(self) -> SeenAt | None:
        """When the last of its cases had another result, once it is gone."""
        if self.open_runs:
            return None
        ends = [run.after for run in self.runs if run.after]
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

    def had_failure(self, night: int, names: Collection[str]) -> bool:
        """Return whether one of these cases had the failure in a night."""
        return any(
            run.case.case in names and run.first <= night <= run.last
            for run in self.runs
        )


def failure_lives(
    history: NightsHistory, issues: Mapping[str, Mapping[str, str]] | None = None
) -> list[FailureLife]:
    """Return all failures: first the open ones, the newest of these first, then the
    known ones, then those that are gone.

    issues: by the start of a night and a case that failed in it.
    """
    alike = defaultdict[tuple[Track, str], list[StateRun]](list)
    for case in history.cases:
        for run in case.runs:
            if run.failed and run.failure:
                alike[case.track, run.signature].append(run)
    groups = [
        group for runs in alike.values() for group in _grouped_by_range(runs, history)
    ]
    groups.sort(key=lambda group: (group[0].first, group[0].case.track))
    lives = defaultdict[ClusterKey, list[FailureLife]](list)
    for group in groups:
        track, newest = group[0].case.track, max(group, key=lambda run: run.last)
        assert newest.failure
        cluster = track.key_of(newest.failure).cluster([], newest.failure)
        others = lives[cluster.key]
        page = f"{cluster.id}-{len(others) + 1}" if others else cluster.id
        life = FailureLife(track, group, history, newest.failure, page, cluster)
        others.append(life)
    _add_conclusions(history, lives, issues or {})
    return sorted(
        (life for others in lives.values() for life in others),
        key=lambda life: (_STATES.index(life.state), -life.current.first),
    )


def _grouped_by_range(
    runs: Sequence[StateRun], history: NightsHistory
) -> Sequence[Sequence[StateRun]]:
    """Group the runs of one signature by the nights between which they came: those of a
    group overlap, so that one change can have brought all of them.
    """
    groups: list[list[StateRun]] = []
    for run in sorted(runs, key=lambda run: run.first):
        suspect = 0  # the first night whose toolchain may have brought it
        if run.before and not run.is_edited:
            last, first = run.before.last, run.first
            old, new = history.nights[last].toolchain, history.nights[first].toolchain
            suspect = 0 if old.is_same(new) else last + 1
        overlapping = [group for group in groups if suspect <= group[0].first]
        if not overlapping:
            overlapping = [[]]
            groups += overlapping
        overlapping[-1].append(run)
    return groups


def _add_conclusions(
    history: NightsHistory,
    lives: Mapping[ClusterKey, Sequence[FailureLife]],
    issues: Mapping[str, Mapping[str, str]],
) -> None:
    """Add to each failure what the last night that investigated it found out."""
    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            # what was found out holds for the case that was investigated
            names = cluster.cases
            if cluster.representative:
                names = [cluster.representative, *cluster.confirmed]
            for life in lives.get(cluster.key, ()):
                is_more = bool(cluster.steps) or not life.cluster.steps
                if is_more and life.had_failure(number, names):
                    life.cluster, life.found_in = cluster, night
        opened = issues.get(night.started, {})
        for case in night.cases:
            issue = case.issue or opened.get(case.case)
            alike = lives.get(case.key_of(case.failure), ()) if case.failure else ()
            for life in alike:
                if issue and life.had_failure(number, [case.case]):
                    life.issue = issue
