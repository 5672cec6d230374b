"""A failure in all nights: when it came and went, what was found out about it, and what
to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from triage.investigate.result import ClusterKey, FailureCluster
from triage.model.json_form import UNPRINTED, in_json, in_json_as
from triage.model.outcome import FAILING, PASSING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.history import CaseHistory, NightsHistory, StateRun
from triage.nightly.result import Night
from triage.nightly.stored_night import Track
from triage.nightly.verdict import ToDo, failure_to_do, investigating_command

_FROM_BEST_TO_WORST = (Status.UNTESTABLE, *PASSING, Status.XFAIL, Status.FAILED)
_STATES = ("open", "known", "gone")


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
    came: range
    """The nights between which it came: from the first that may have brought it to its
    own first one.
    """

    @property
    def first(self) -> int:
        return self.run.first.night

    @property
    def is_edited(self) -> bool:
        """Whether the input was edited just before, so that no compiler brought the
        failure.
        """
        before = self.before
        return before is not None and self.run.first.is_edited_since(before.last)

    def has(self, night: int) -> bool:
        return self.first <= night <= self.run.last.night


@dataclass(eq=False)
class FailureLife:
    """All nights and cases of a failure in a track: of one signature that came in
    ranges which overlap. It is printed as its page shows it.
    """

    track: Track = field(metadata=UNPRINTED)
    runs: Sequence[FailingRun] = field(metadata=UNPRINTED)
    nights: Sequence[Night] = field(metadata=UNPRINTED)
    """All of the history."""
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

    @in_json_as("track")
    def track_name(self) -> str:
        return self.track.name

    @in_json
    def compiler(self) -> str:
        return self.track.compiler

    @property
    def cases(self) -> Sequence[CaseHistory]:
        return list(dict.fromkeys(failing.case for failing in self.runs))

    @cached_property
    def open_runs(self) -> Sequence[FailingRun]:
        """The runs that have not ended. Those that a recipe expects are left out,
        unless all are expected.
        """
        last = [failing for failing in self.runs if failing.after is None]
        unexpected = [each for each in last if each.run.status is Status.FAILED]
        return unexpected or last

    @in_json
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
    def current(self) -> FailingRun:
        """The run since which it is open; the first one where it is gone."""
        return min(self.open_runs or self.runs, key=lambda failing: failing.first)

    @in_json
    def before(self) -> Revision | None:
        """The last toolchain without it; null if no result is older, or if the input
        was edited.
        """
        return self.toolchain_before(self.current)

    @in_json
    def came(self) -> SeenAt:
        """Since when it is open."""
        return self.seen_at(self.current.first, self.current.is_edited)

    @in_json
    def first(self) -> SeenAt:
        """When it was first seen."""
        return self.seen_at(min(failing.first for failing in self.runs))

    @in_json
    def last(self) -> SeenAt:
        return self.seen_at(max(failing.run.last.night for failing in self.runs))

    @in_json
    def gone(self) -> SeenAt | None:
        """When the last of its cases had another result, once it is gone."""
        if self.open_runs:
            return None
        ends = [
            (failing.after.first, failing.run.last)
            for failing in self.runs
            if failing.after
        ]
        after, last = max(ends, key=lambda end: end[0].night)
        return self.seen_at(after.night, after.is_edited_since(last))

    @in_json
    def to_do(self) -> ToDo | None:
        """Null where nothing is to do."""
        if self.state == "gone" or (self.state == "known" and not self.issue):
            return None
        command = self._investigating_command()
        day = self.came.day
        return failure_to_do(self.cluster, issue=self.issue, since=day, command=command)

    def seen_at(self, number: int, is_edited: bool = False) -> SeenAt:
        """Return a night. is_edited: the input was edited just before."""
        night = self.nights[number]
        return SeenAt(night.started[:10], night.toolchain, is_edited)

    def toolchain_before(self, failing: FailingRun) -> Revision | None:
        """Return the toolchain of the last night without a failure, or the baseline of
        its first night; None if the input was edited.
        """
        if failing.is_edited:
            return None
        if failing.before:
            return self.nights[failing.before.last.night].toolchain
        if failing.run.first.differs_on_baseline:
            return self.nights[failing.first].baseline
        return None

    def _investigating_command(self) -> str | None:
        """Return the command line that investigates a case with the failure.

        It comes from the last night of the failure, or else from the night since which
        it is open. The representative case of the cluster is preferred.
        """
        names = {case.case for case in self.cases}
        last = max(failing.run.last.night for failing in self.runs)
        for number in (last, self.current.first):
            cases = [
                case
                for case in self.nights[number].cases
                if case.case in names and case.is_new_failure
            ]
            cases.sort(key=lambda case: case.case != self.cluster.representative)
            for case in cases:
                command = investigating_command(case)
                if command:
                    return command
        return None

    def states(self, nights: Iterable[int]) -> Iterator[tuple[Status | None, bool]]:
        """Yield for each night the worst status of its cases, and whether they fail in
        another way. The status is None in a night that ran none of them.
        """
        runs_of: dict[CaseHistory, list[FailingRun]] = {}
        for failing in self.runs:
            runs_of.setdefault(failing.case, []).append(failing)
        for night in nights:
            own, others = set[Status](), set[Status]()
            for case, runs in runs_of.items():
                run = case.run_at(night)
                if run:
                    is_own = run.failed and any(each.has(night) for each in runs)
                    if is_own:
                        own.add(run.status)
                    else:
                        others.add(run.status)
            worst = max(own or others, key=_FROM_BEST_TO_WORST.index, default=None)
            yield worst, not own and worst in FAILING

    def learn(self, cluster: FailureCluster, night: Night, issue: str | None) -> None:
        """Add what a night found out to what earlier nights did."""
        self.issue = issue or self.issue
        older = self.cluster
        is_less = bool(older.steps and not cluster.steps)
        # cases of one night may have been investigated apart
        is_same_night = self.found_in is night
        is_less |= is_same_night and older.is_explained and not cluster.is_explained
        if self.found_in and is_less:
            return
        self.found_in = night
        self.cluster = replace(
            cluster,
            culprit=cluster.culprit or older.culprit,
            fix=cluster.fix or older.fix,
            owner=cluster.owner or older.owner,
        )


def failure_lives(
    history: NightsHistory, issues: Mapping[str, Mapping[str, str]] | None = None
) -> list[FailureLife]:
    """Return all failures: first the open ones, the newest of these first, then the
    known ones, then those that are gone.

    issues: by the start of a night and the id of a cluster in it.
    """
    runs: dict[tuple[Track, str], list[FailingRun]] = {}
    for case in history.cases:
        for failing in _failing_runs(history, case):
            key = case.track, failing.run.last.signature
            runs.setdefault(key, []).append(failing)
    groups = [
        (group[0].first, track, signature, group)
        for (track, signature), of_signature in runs.items()
        for group in _by_range(of_signature)
    ]
    groups.sort(key=lambda entry: entry[:3])
    numbers: Counter[ClusterKey] = Counter()
    lives = []
    for _, track, _, group in groups:
        newest = max(group, key=lambda failing: failing.run.last.night)
        failure = newest.run.last.failure
        assert failure
        cluster = track.key_of(failure).cluster([], failure)
        numbers[cluster.key] += 1
        page = cluster.id
        if numbers[cluster.key] > 1:
            page += f"-{numbers[cluster.key]}"
        lives.append(FailureLife(track, group, history.nights, failure, page, cluster))
    _learn(history, lives, issues or {})
    lives.sort(
        key=lambda life: (
            _STATES.index(life.state),
            -life.current.first,
            -len(life.cases),
            life.failure.signature,
        )
    )
    return lives


def _by_range(runs: Sequence[FailingRun]) -> list[list[FailingRun]]:
    """Group the runs of one signature by the ranges in which they came: the ranges of a
    group overlap, so that one change can have brought all of them.
    """
    groups: list[list[FailingRun]] = []
    ranges: list[range] = []
    for failing in sorted(runs, key=lambda failing: failing.first):
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


def _failing_runs(history: NightsHistory, case: CaseHistory) -> Iterator[FailingRun]:
    """Yield the runs in which a case fails, those that differ only in what is expected
    as one.
    """
    tested: list[StateRun] = []
    for run in case.runs:
        last = tested[-1] if tested else None
        is_same = last and last.failed and last.first.signature == run.first.signature
        if last and is_same and run.failed:
            tested[-1] = replace(run, first=last.first)
        elif run.status is not Status.UNTESTABLE:
            tested.append(run)
    neighbours = zip([None, *tested], tested, [*tested[1:], None], strict=False)
    for before, run, after in neighbours:
        if run.failed and run.first.signature:
            first = 0
            if before is None or not run.first.is_edited_since(before.last):
                first = _first_suspect(history, case, before, run)
            came = range(first, run.first.night + 1)
            yield FailingRun(case, run, before, after, came)


def _first_suspect(
    history: NightsHistory, case: CaseHistory, before: StateRun | None, run: StateRun
) -> int:
    """Return the first night whose toolchain may have brought a failing run; 0 if the
    compiler did not change, or nothing is known of the time before.
    """
    night = history.nights[run.first.night]
    first = 0
    if before:
        last = history.nights[before.last.night]
        if run.last.flaky or last.toolchain.is_same(night.toolchain):
            return 0
        first = before.last.night + 1
    if run.first.differs_on_baseline:
        for number in history.tracks[case.track]:
            is_baseline = history.nights[number].toolchain.is_same(night.baseline)
            if first <= number < run.first.night and is_baseline:
                first = number + 1
    return first


def _learn(
    history: NightsHistory,
    lives: Iterable[FailureLife],
    issues: Mapping[str, Mapping[str, str]],
) -> None:
    """Add to each failure what nights found out about it."""
    runs_of: dict[str, list[tuple[FailureLife, FailingRun]]] = {}
    for life in lives:
        for failing in life.runs:
            runs_of.setdefault(failing.case.case, []).append((life, failing))

    def lives_in(
        number: int, key: ClusterKey, names: Iterable[str]
    ) -> list[FailureLife]:
        """Return the failures that cases have in a night."""
        return [
            life
            for name in names
            for life, failing in runs_of.get(name, ())
            if life.cluster.key == key
            and failing.has(number)
            and failing.case.run_at(number)
        ]

    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            # what was found out holds for the case that was investigated
            names = cluster.cases
            if cluster.representative:
                names = [cluster.representative, *cluster.confirmed]
            issue = issues.get(night.started, {}).get(cluster.id)
            for life in lives_in(number, cluster.key, names):
                life.learn(cluster, night, issue)
        for case in night.cases:
            if case.failure and case.issue:
                key = case.key_of(case.failure)
                for life in lives_in(number, key, [case.case]):
                    life.issue = case.issue
