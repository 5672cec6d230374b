"""All stored nights next to each other: what each case did in each night, as runs of
equal results.

Cases belong to tracks, and nothing is compared across them: a release of one compiler
says nothing about another one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from triage.investigate.result import CaseChangeKind
from triage.model.errors import BadInput
from triage.model.outcome import FAILING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.nightly.stored_night import StoredNight, Track
from triage.recipes.values import parse_version

_FLAKY_NIGHTS = 30  # in which changes make a case flaky


@dataclass(slots=True)
class Seen:
    """The result of a case in a night."""

    night: int
    """Index in `NightsHistory.nights`."""
    status: Status
    failure: Failure | None
    change: CaseChangeKind
    input: str
    """The beginning of the hash of the input; empty if it is not known."""

    @property
    def signature(self) -> str:
        return self.failure.signature if self.failure else ""


@dataclass(slots=True, eq=False)
class StateRun:
    """The nights in which a case has the same status and signature."""

    first: Seen
    last: Seen
    count: int = 1
    """How many nights have a result of the case."""
    is_edited: bool = False
    """The input changed since the case was tested before, so that no compiler made the
    difference.
    """

    @property
    def status(self) -> Status:
        return self.last.status

    @property
    def failed(self) -> bool:
        return self.status in FAILING

    @property
    def tested(self) -> bool:
        return self.status is not Status.UNTESTABLE


@dataclass(slots=True, eq=False)
class CaseHistory:
    """A case in all nights of its track."""

    track: Track
    case: str
    source: str = ""
    """The file of its recipe, where it is known."""
    runs: list[StateRun] = field(default_factory=list)
    metrics: dict[str, dict[int, float]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """What was measured, by metric and night."""
    _row: Sequence[Any] = ()

    def add(self, night: int, row: list[Any], failures: Sequence[Failure]) -> None:
        """Add the result in the next night. row: of a stored night."""
        status, change, place, content, self.source = row
        if row == self._row and place is None:
            self.now.last.night = night
            self.now.count += 1
            return
        self._row = row
        failure = None if place is None else failures[place]
        seen = Seen(night, Status(status), failure, CaseChangeKind(change), content)
        last = self.now.last if self.runs else None
        if last and (last.status, last.signature) == (seen.status, seen.signature):
            self.now.last = seen
            self.now.count += 1
            return
        tested = [run.last.input for run in self.runs if run.tested and run.last.input]
        is_edited = bool(tested and content) and tested[-1] != content
        self.runs.append(StateRun(seen, replace(seen), is_edited=is_edited))

    @property
    def now(self) -> StateRun:
        return self.runs[-1]


@dataclass(frozen=True)
class NightsHistory:
    """All nights, the oldest first, and all cases."""

    numbers: Sequence[int]
    """The number in the store of each night."""
    nights: Sequence[Night]
    """Without the cases that only passed."""
    cases: Sequence[CaseHistory]
    tracks: Mapping[Track, Sequence[int]]
    """The nights of each track, in order."""

    def last_night(self, track: Track) -> int:
        """Return the last complete night of a track; the last one where none is
        complete.
        """
        nights = self.tracks[track]
        complete = [number for number in nights if not self.nights[number].partial]
        return (complete or nights)[-1]

    def is_known(
        self, track: Track, name: str, failure: Failure, toolchain: Revision
    ) -> bool:
        """Return whether the last result of a case with another toolchain is a failure
        that no recipe expected.
        """
        states = [
            (run.status, run.last.signature)
            for case in self.cases
            if (case.track, case.case) == (track, name)
            for run in case.runs
            if run.tested
            and not self.nights[run.first.night].toolchain.is_same(toolchain)
        ]
        return states[-1:] == [(Status.FAILED, failure.signature)]

    def flaky_changes(self, case: CaseHistory, since: int = 0) -> int:
        """Return how often a case changed its state although the compiler and the input
        were the same.

        since: the first night that counts.
        """
        runs = [run for run in case.runs if run.first.night >= since]
        count = sum(run.first.change is CaseChangeKind.FLAKY for run in runs)
        for old, new in pairwise(runs):
            before = self.nights[old.last.night].toolchain
            is_same = before.is_same(self.nights[new.first.night].toolchain)
            count += is_same and old.tested and new.tested and not new.is_edited
        return count

    def is_flaky(self, name: str) -> bool:
        """Return whether a case changed its state and back in the last nights although
        the compiler and the input were the same.
        """
        since = len(self.nights) - _FLAKY_NIGHTS
        cases = [case for case in self.cases if case.case == name]
        return any(self.flaky_changes(case, since) > 1 for case in cases)


def history_of(stored: Iterable[StoredNight], pattern: str = "*") -> NightsHistory:
    """Align nights, the oldest first. Results with an older toolchain than the track
    had before are left out.

    pattern: a shell pattern of the names of tracks. Raises BadInput if none fits.
    """
    shown: list[StoredNight] = []
    newest: dict[Track, Revision] = {}
    nights: dict[Track, list[int]] = {}
    cases: dict[Track, dict[str, CaseHistory]] = {}
    for entry in stored:
        toolchain, number = entry.night.toolchain, len(shown)
        is_shown = pattern == "*"
        for track, rows, numbers in entry.results():
            if is_older(toolchain, newest.get(track, toolchain)):
                continue
            newest[track] = toolchain
            if not fnmatchcase(track.name, pattern):
                continue
            is_shown = True
            nights.setdefault(track, []).append(number)
            members = cases.setdefault(track, {})
            for name, row in rows.items():
                if name not in members:
                    members[name] = CaseHistory(track, name)
                members[name].add(number, row, entry.failures)
            for metric, values in numbers.items():
                for name, value in zip(rows, values, strict=True):
                    if value is not None:
                        members[name].metrics[metric][number] = value
        if is_shown:
            shown.append(entry)
    if newest and not nights:
        names = ", ".join(repr(track.name) for track in sorted(newest))
        raise BadInput(f"no track fits {pattern!r}; there are {names}")
    return NightsHistory(
        [entry.number for entry in shown],
        [entry.night for entry in shown],
        [case for members in cases.values() for case in members.values()],
        {track: nights[track] for track in sorted(nights)},
    )


def is_older(toolchain: Revision, other: Revision) -> bool:
    """Return whether a toolchain is older than another, by versions or dates."""
    old, new = parse_version(toolchain.name), parse_version(other.name)
    if old and new:
        return old < new
    return bool(toolchain.date and other.date and toolchain.date < other.date)
