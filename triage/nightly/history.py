"""All stored nights next to each other: what each case did in each night, as runs of
equal results.

Cases belong to tracks, and nothing is compared across them: a release of one compiler
says nothing about another one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import accumulate, pairwise
from math import log
from statistics import median

from triage.investigate.result import (
    NEW_FAILURES,
    CaseChangeKind,
    CaseResult,
    ClusterKey,
)
from triage.model.errors import BadInput
from triage.model.fields import UNPRINTED, in_json
from triage.model.outcome import FAILING, Failure, Status
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.result import Night
from triage.nightly.store import NightSummary
from triage.recipes.document import schema_of
from triage.recipes.values import parse_version

_FLAKY_NIGHTS = 30  # in which changes make a case flaky
_STEP_NIGHTS = 5  # before and after a step in a time, of which the medians are compared
_LEAST_RATIO = 1.1  # of these medians
_SURE = 6.7  # times their usual difference
_UNLISTED = (CaseChangeKind.PASSING, CaseChangeKind.FAILING, CaseChangeKind.UNTESTABLE)


TIMES = {"run_seconds": "Run time", "cpu_seconds": "Compile time (CPU)"}
"""What pages draw as a line."""


@dataclass(frozen=True, order=True)
class Track:
    """Results that may be compared with each other."""

    compiler: str
    suite: str
    target: str
    """Backend and chip."""
    kind: str
    """Kind of the toolchains."""

    @property
    def name(self) -> str:
        parts = (self.compiler, self.suite, self.target, self.kind)
        return " · ".join(filter(None, parts))

    @property
    def backend(self) -> str:
        return self.target.partition(" ")[0]

    def key_of(self, failure: Failure) -> ClusterKey:
        """Return what identifies a failure of the track."""
        return ClusterKey(self.compiler, self.backend, failure.signature)


def track_of(case: CaseResult, kind: ToolchainKind) -> Track:
    """Return the track of a case that ran on a kind of toolchain."""
    target = ""
    if case.target:
        target = f"{case.target.backend} {case.target.chip or ''}".strip()
    return Track(case.compiler, case.suite, target, kind)


@dataclass(frozen=True)
class CaseRow:
    """What a store keeps of every case of a night."""

    status: Status = Status.PASSED
    change: CaseChangeKind = CaseChangeKind.PASSING
    failure: Failure | None = None
    input: str = ""
    """The beginning of the hash of the input; empty if it is not known."""
    source: str = ""
    """The file of its recipe, where it is known."""
    issue: str | None = None
    """The issue that its recipe names."""
    log: str | None = None
    """The path of its output."""
    times: dict[str, float] = field(default_factory=dict)
    """Those of `TIMES` that were measured."""

    @property
    def signature(self) -> str:
        if self.failure:
            return self.failure.signature
        return ""


@dataclass(frozen=True)
class NightRows:
    """What histories need of a night."""

    night: Night
    """Without the cases that passed, failed as before or could not be tested."""
    tracks: list[tuple[Track, dict[str, CaseRow]]]
    """The cases of each track."""


def parse_rows(content: bytes) -> NightRows:
    """Read the JSON of rows. Raises ValueError for something else."""
    rows: NightRows = schema_of(NightRows).validate_json(content)
    return rows


def rows_of(night: Night) -> NightRows:
    """Return what histories need of a night."""
    tracks = defaultdict[Track, dict[str, CaseRow]](dict)
    for case in night.cases:
        numbers = case.numbers
        tracks[track_of(case, night.kind)][case.case] = CaseRow(
            case.status,
            case.change,
            case.failure,
            case.input[:8],
            case.source,
            case.issue,
            case.log,
            {name: numbers[name] for name in TIMES if numbers.get(name)},
        )
    listed = [case for case in night.cases if case.change not in _UNLISTED]
    return NightRows(replace(night, cases=listed, planned=[]), list(tracks.items()))


@dataclass(frozen=True, eq=False)
class PastNight:
    """A night of a history. It is printed where a result came, was seen, or was
    gone.
    """

    index: int = field(metadata=UNPRINTED)
    """In the order of the nights."""
    summary: NightSummary = field(metadata=UNPRINTED)
    record: Night = field(metadata=UNPRINTED)
    """Without the cases that passed, failed as before or could not be tested."""

    @in_json
    def day(self) -> str:
        return self.summary.day

    @in_json
    def toolchain(self) -> Revision:
        return self.record.toolchain


@dataclass(eq=False)
class StateRun:
    """The nights in which a case passes, or has the same failure, whatever its recipe
    expects. Nights in which it could not be tested end no run.
    """

    case: CaseHistory = field(metadata=UNPRINTED)
    before: StateRun | None = field(metadata=UNPRINTED)
    change: CaseChangeKind
    """In the first night."""
    status: Status
    """As it was last seen."""
    failure: Failure | None
    """As it was last seen."""
    first: PastNight
    last: PastNight
    is_edited: bool
    """The input changed since the case was tested before, so that no compiler made the
    difference.
    """
    after: StateRun | None = field(default=None, metadata=UNPRINTED)
    issue: str | None = None
    """The last issue that its recipe named, or that was opened for it."""
    logs: dict[PastNight, str] = field(default_factory=dict, metadata=UNPRINTED)
    """The path of the output in each night that kept it."""

    @in_json
    def track(self) -> str:
        return self.case.track.name

    @property
    def signature(self) -> str:
        if self.failure:
            return self.failure.signature
        return ""

    @property
    def failed(self) -> bool:
        return self.status in FAILING

    @property
    def is_new(self) -> bool:
        """Whether a failure was new in its first night: another result was known, or
        the night says so.
        """
        if self.before is None or self.is_edited:
            return self.change in NEW_FAILURES
        return self.change is not CaseChangeKind.KNOWN

    def has(self, night: PastNight) -> bool:
        """Return whether a night is one of these, or between them."""
        return self.first.index <= night.index <= self.last.index


@dataclass(eq=False)
class CaseHistory:
    """A case in all nights of its track."""

    track: Track
    case: str
    source: str = ""
    runs: list[StateRun] = field(default_factory=list)
    times: dict[str, dict[int, float]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """What was measured, by its name and the index of the night."""
    _input: str = ""
    """The last one that was tested."""

    def add(self, night: PastNight, row: CaseRow, issue: str | None = None) -> None:
        """Add the result in the next night; of one that could not be tested only the
        times. issue: one that was opened for it.
        """
        self.source = row.source
        for name, seconds in row.times.items():
            self.times[name][night.index] = seconds
        if row.status is Status.UNTESTABLE:
            return
        last = self.runs[-1] if self.runs else None
        is_edited = bool(row.input and self._input and row.input != self._input)
        self._input = row.input or self._input
        if last and last.signature == row.signature:
            run = last
            run.status = row.status
            run.failure = row.failure
            run.last = night
        else:
            state = (row.change, row.status, row.failure)
            run = StateRun(self, last, *state, night, night, is_edited)
            self.runs.append(run)
            if last:
                last.after = run
        run.issue = row.issue or issue or run.issue
        if row.log:
            run.logs[night] = row.log

    def flaky_changes(self, since: int = 0) -> int:
        """Return how often it changed its state although the compiler and the input
        were the same. since: the first night that counts.
        """
        runs = [run for run in self.runs if run.first.index >= since]
        count = sum(run.change is CaseChangeKind.FLAKY for run in runs)
        for old, new in pairwise(runs):
            is_same = old.last.toolchain.is_same(new.first.toolchain)
            count += is_same and not new.is_edited
        return count


@dataclass(frozen=True)
class NightsHistory:
    """All nights, the oldest first, and all cases."""

    nights: Sequence[PastNight]
    cases: Sequence[CaseHistory]
    tracks: Mapping[Track, Sequence[PastNight]]
    """The nights of each track."""

    def last_night(self, track: Track) -> PastNight:
        """Return the last complete night of a track; the last one where none is
        complete.
        """
        nights = self.tracks[track]
        complete = [night for night in nights if not night.record.partial]
        return (complete or nights)[-1]

    def is_known(self, result: CaseResult, kind: ToolchainKind) -> bool:
        """Return whether the last result of a case with another toolchain is the same
        failure, which no recipe expected. kind: of the toolchain.
        """
        identity = (track_of(result, kind), result.case)
        new = result.toolchain
        states = [
            (run.status, run.signature)
            for case in self.cases
            if (case.track, case.case) == identity
            for run in case.runs
            if not run.first.toolchain.is_same(new)
        ]
        return states[-1:] == [(Status.FAILED, result.state[1])]

    def is_flaky(self, name: str) -> bool:
        """Return whether a case changed its state and back in the last nights although
        the compiler and the input were the same.
        """
        since = len(self.nights) - _FLAKY_NIGHTS
        return any(
            case.case == name and case.flaky_changes(since) > 1 for case in self.cases
        )


def history_of(
    stored: Iterable[tuple[NightSummary, NightRows]],
    pattern: str,
    issues: Mapping[str, Mapping[str, str]],
) -> NightsHistory:
    """Align nights, the oldest first. Results with an older toolchain than the track
    had before are left out.

    pattern: a shell pattern of the names of tracks; issues: those that were opened, by
    the start of a night and a case that failed in it. Raises BadInput if no track fits.
    """
    nights: list[PastNight] = []
    names: set[str] = set()
    tracks: dict[Track, list[PastNight]] = {}
    cases: dict[tuple[Track, str], CaseHistory] = {}
    for summary, stored_night in stored:
        night = PastNight(len(nights), summary, stored_night.night)
        opened = issues.get(summary.started, {})
        names |= {track.name for track, _ in stored_night.tracks}
        shown = {
            track: rows
            for track, rows in stored_night.tracks
            if fnmatchcase(track.name, pattern)
        }
        for track, rows in shown.items():
            of_track = tracks.setdefault(track, [])
            if of_track and is_older(night.toolchain, of_track[-1].toolchain):
                continue
            of_track.append(night)
            for name, row in rows.items():
                if (track, name) not in cases:
                    cases[track, name] = CaseHistory(track, name)
                cases[track, name].add(night, row, opened.get(name))
        if shown or pattern == "*":
            nights.append(night)
    if names and not tracks:
        known = ", ".join(map(repr, sorted(names)))
        raise BadInput(f"no track fits {pattern!r}; there are {known}")
    return NightsHistory(nights, list(cases.values()), dict(sorted(tracks.items())))


def is_older(toolchain: Revision, other: Revision) -> bool:
    """Return whether a toolchain is older than another, by versions or dates."""
    old = parse_version(toolchain.name)
    new = parse_version(other.name)
    if old and new:
        return old < new
    return bool(toolchain.date and other.date and toolchain.date < other.date)


@dataclass(frozen=True)
class TimeStep:
    """A lasting change of a time."""

    before: int
    """The last night before it."""
    at: int
    """The first night after it."""
    old: float
    """The median before it."""
    new: float

    @property
    def ratio(self) -> float:
        return self.new / self.old


def time_steps(history: NightsHistory) -> list[tuple[TimeStep, str, CaseHistory]]:
    """Return all steps with the names of the times, the steepest first."""
    steps = [
        (step, name, case)
        for case in history.cases
        for name, times in case.times.items()
        for step in find_steps(times)
    ]
    return sorted(steps, key=lambda row: -abs(log(row[0].ratio)))


def find_steps(values: Mapping[int, float]) -> Iterator[TimeStep]:
    """Yield the steps in positive values by night, the largest first.

    A step is a change between the medians of neighbouring nights that is larger than
    the noise of the series makes likely.
    """
    count = _STEP_NIGHTS
    nights = list(values)
    series = list(values.values())
    levels = [median(series[at : at + count]) for at in range(len(series) - count + 1)]
    changes = {
        at: abs(log(levels[at + count] / levels[at]))
        for at in range(len(levels) - count)
    }
    least = max(log(_LEAST_RATIO), _SURE * median(changes.values() or [0.0]))
    while changes and max(changes.values()) >= least:
        start = max(changes, key=changes.__getitem__)
        old = levels[start]
        new = levels[start + count]
        # the step is where the values on its left are nearer to the old level
        near = series[start : start + 2 * count]
        votes = [1 if abs(value - old) < abs(value - new) else -1 for value in near]
        sums = list(accumulate(votes))
        at = start + 1 + sums.index(max(sums))
        yield TimeStep(nights[at - 1], nights[at], old, new)
        changes = {
            at: change for at, change in changes.items() if abs(at - start) > count
        }
