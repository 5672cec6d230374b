"""What is known over all nights: of a failure, when it came and went, what was found
out about it, and what to do; of a case, all that was seen of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from packaging.version import Version

from triage.execution.cache import Record, ResultCache
from triage.execution.judge import compiler_rules, judge
from triage.investigate.result import CaseChangeKind, ClusterKey, FailureCluster
from triage.model.errors import BadInput
from triage.model.fields import UNPRINTED, in_json
from triage.model.outcome import Failure, ProbeResult, Status
from triage.model.revision import Revision
from triage.nightly.history import (
    CaseHistory,
    NightsHistory,
    PastNight,
    StateRun,
    Track,
)
from triage.nightly.result import Night, ToDo, to_do_for_failure
from triage.nightly.store import NightStore
from triage.recipes.values import parse_version

_STATES = ("open", "known", "gone")
_first_seen = attrgetter("first.index")
_last_seen = attrgetter("last.index")
_COMPARED = (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)


@dataclass(eq=False)
class FailureLife:
    """A failure in a track: the cases with one signature, and their nights, as far as
    one change can have brought it to them. It is printed as its page shows it.
    """

    track: Track = field(metadata=UNPRINTED)
    runs: Sequence[StateRun] = field(metadata=UNPRINTED)
    failure: Failure = field(metadata=UNPRINTED)
    """As it was last seen."""
    page: str
    """Name of its page."""
    cluster: FailureCluster
    """What nights found out about it."""
    is_new: bool = False
    """Whether the last night of its track brought it to a case."""
    found_in: Night | None = field(default=None, metadata=UNPRINTED)
    """The night that found it out."""

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

    def is_new_in(self, night: PastNight) -> bool:
        """Return whether a night brought it to a case."""
        return any(run.is_new and run.first is night for run in self.runs)

    @property
    def current(self) -> StateRun:
        """The run since which it is open; the first one where it is gone."""
        return min(self.open_runs or self.runs, key=_first_seen)

    @in_json
    def before(self) -> Revision | None:
        """The toolchain of the last night without it, or the baseline of its first
        night; null if neither was tested, or the input was edited.
        """
        run = self.current
        if run.before and not run.is_edited:
            return run.before.last.toolchain
        if run.before is None and run.change in _COMPARED:
            return run.first.record.baseline
        return None

    @in_json
    def came(self) -> PastNight:
        """Since when it is open."""
        return self.current.first

    @in_json
    def is_edited(self) -> bool:
        """Whether the input was edited when it came."""
        return self.current.is_edited

    @in_json
    def last(self) -> PastNight:
        return max(self.runs, key=_last_seen).last

    @in_json
    def gone(self) -> PastNight | None:
        """When the last of its cases had another result, once it is gone."""
        if self.open_runs:
            return None
        ends = [run.after.first for run in self.runs if run.after]
        return max(ends, key=attrgetter("index"))

    @in_json
    def issue(self) -> str | None:
        """The issue that a recipe names, or that was opened for it."""
        runs = [run for run in self.runs if run.issue]
        if runs:
            return max(runs, key=_last_seen).issue
        return None

    @in_json
    def to_do(self) -> ToDo | None:
        """Null where nothing is to do."""
        if self.state == "gone" or (self.state == "known" and not self.issue):
            return None
        return to_do_for_failure(self.cluster, self.issue)

    def learn(self, cluster: FailureCluster, night: PastNight) -> None:
        """Take over what a night found out, unless more is known."""
        names = cluster.bisected_cases or cluster.cases
        had_failure = any(
            run.case.case in names and run.has(night) for run in self.runs
        )
        if had_failure and (cluster.steps or not self.cluster.steps):
            self.cluster = cluster
            self.found_in = night.record


def failure_lives(history: NightsHistory) -> list[FailureLife]:
    """Return all failures: first the open ones, the newest of these first, then the
    known ones, then those that are gone.
    """
    by_failure = defaultdict[tuple[Track, str, str], list[StateRun]](list)
    for case in history.cases:
        for run in case.runs:
            if run.failure:
                by_failure[case.track, run.signature, _part_of(run)].append(run)
    groups = sorted(
        (group for runs in by_failure.values() for group in _grouped_by_range(runs)),
        key=lambda group: (group[0].first.index, group[0].case.track),
    )
    lives = defaultdict[ClusterKey, list[FailureLife]](list)
    for group in groups:
        track = group[0].case.track
        newest = max(group, key=_last_seen)
        assert newest.failure
        cluster = track.key_of(newest.failure).cluster([], newest.failure)
        others = lives[cluster.key]
        page = f"{cluster.id}-{len(others) + 1}" if others else cluster.id
        last = history.last_night(track)
        life = FailureLife(track, group, newest.failure, page, cluster)
        life.is_new = bool(life.open_runs) and life.is_new_in(last)
        others.append(life)
    for night in history.nights:
        for cluster in sorted(night.record.clusters, key=attrgetter("has_culprit")):
            for life in lives.get(cluster.key, ()):
                life.learn(cluster, night)
    return sorted(
        (life for others in lives.values() for life in others),
        key=lambda life: (_STATES.index(life.state), -life.came.index),
    )


def _part_of(run: StateRun) -> str:
    """Return the number in the id of the cluster that a night put the case into: `2` of
    `ID.2`, and nothing of `ID`, the cluster of the first change.
    """
    for cluster in run.first.record.clusters:
        if run.case.case in cluster.cases:
            return cluster.id.partition(".")[2]
    return ""


def _grouped_by_range(runs: Sequence[StateRun]) -> Sequence[Sequence[StateRun]]:
    """Group the runs of one signature by the nights between which they came: those of a
    group overlap, so that one change can have brought all of them.
    """
    groups: list[list[StateRun]] = []
    for run in sorted(runs, key=_first_seen):
        first_suspect = 0  # the first night whose toolchain may have brought it
        if run.before and not run.is_edited:
            last = run.before.last
            if not last.toolchain.is_same(run.first.toolchain):
                first_suspect = last.index + 1
        if not groups or groups[-1][0].first.index < first_suspect:
            groups.append([])
        groups[-1].append(run)
    return groups


def stored_logs(case: CaseHistory, store: NightStore) -> Mapping[PastNight, str]:
    """Return the last stored output of each failure of a case, the newest first."""
    logs = {}
    for run in reversed(case.runs):
        for night, path in reversed(run.logs.items()):
            text = store.log(night.summary.number, path)
            if text is not None:
                logs[night] = text
                break
    return logs


@dataclass(frozen=True)
class KnownCase:
    """Everything known of a case."""

    case: str
    runs: Sequence[StateRun]
    """The newest of each track first."""
    flaky_changes: int
    """Changes of its state without a change of the compiler."""
    states: Sequence[ProbeResult]
    """The cached result on each toolchain, whatever the recipe expects, the newest
    release first.
    """
    failures: Sequence[FailureLife]
    log: str | None
    """The output of its last failure that a night kept."""


def known_case(
    name: str, store: NightStore, history: NightsHistory, results: ResultCache
) -> KnownCase:
    """Collect what is known of the case with a name. Raises BadInput if nothing is."""
    records = results.newest_of(name)
    cases = [case for case in history.cases if case.case == name]
    if not cases and not records:
        raise BadInput(
            f"nothing is known of a case {name!r}; `triage run` or `triage nightly` "
            "tests it"
        )
    lives = failure_lives(history)
    logs = [text for case in cases for text in stored_logs(case, store).values()]
    states = sorted(
        map(_state_of, records),
        key=lambda state: parse_version(state.toolchain.name) or Version("0"),
        reverse=True,
    )
    return KnownCase(
        case=name,
        runs=[run for case in cases for run in reversed(case.runs)],
        flaky_changes=sum(case.flaky_changes() for case in cases),
        states=states,
        failures=[life for life in lives if not set(cases).isdisjoint(life.cases)],
        log=next(iter(logs), None),
    )


def _state_of(record: Record) -> ProbeResult:
    outcome = judge(record.execution, compiler_rules())
    return ProbeResult(
        case=record.case_name,
        recipe=record.case_name.partition("[")[0],
        toolchain=Revision(record.toolchain),
        status=Status(outcome.plain_status),
        failure=outcome.failure,
        reason=outcome.reason,
        cause=outcome.cause,
        seconds=record.execution.seconds,
        metrics=record.execution.metrics,
    )
