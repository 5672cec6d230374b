"""All stored nights next to each other: what each case did in each night, as runs of
equal results.

Cases belong to tracks, and nothing is compared across them: a release of one compiler
says nothing about another one.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from triage.model.errors import BadInput
from triage.model.outcome import FAILING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.nightly.stored_night import STATUSES, StoredNight, Track
from triage.recipes.values import parse_version


class Seen(NamedTuple):
    """The result of a case in a night."""

    night: int
    """Index in `NightsHistory.nights`."""
    status: Status
    flaky: bool
    signature: str
    failure: Failure | None
    input: str
    """The beginning of the hash of the input; empty if it is not known."""
    is_new: bool
    """Whether the night calls the failure new."""
    is_compared: bool
    """Whether the case could be tested on both toolchains."""

    @property
    def differs_on_baseline(self) -> bool:
        """Whether the case passes, or fails differently, on the night's baseline."""
        return self.is_new and self.is_compared

    def is_edited_since(self, before: Seen) -> bool:
        """Return whether the input was edited between two nights."""
        return "" not in (before.input, self.input) and before.input != self.input


@dataclass(slots=True, eq=False)
class StateRun:
    """The nights in which a case has the same status and signature."""

    first: Seen
    last: Seen
    count: int = 1
    """How many nights have a result of the case."""

    @property
    def status(self) -> Status:
        return self.last.status

    @property
    def failed(self) -> bool:
        return self.last.status in FAILING


@dataclass(slots=True, eq=False)
class CaseHistory:
    """A case in all nights of its track."""

    track: Track
    case: str
    source: str = ""
    """The file of its recipe, where it is known."""
    name: str = ""
    """On pages: the case, and its track if several tracks have the case."""
    nights: list[int] = field(default_factory=list)
    """Indices of the nights that have a result of it."""
    runs: list[StateRun] = field(default_factory=list)
    metrics: dict[str, dict[int, float]] = field(default_factory=dict)
    """What was measured, by metric and night."""

    def add(self, seen: Seen) -> None:
        """Add the result in the next night."""
        self.nights.append(seen.night)
        run = self.runs[-1] if self.runs else None
        if run and run.last[1:4] == seen[1:4]:
            run.last = seen
            run.count += 1
        else:
            self.runs.append(StateRun(seen, seen))

    @property
    def now(self) -> StateRun:
        return self.runs[-1]

    @property
    def is_edited(self) -> bool:
        """Whether the input changed just before the last run."""
        last = self.runs[-2:]
        return len(last) == 2 and last[1].first.is_edited_since(last[0].last)

    def run_at(self, night: int) -> StateRun | None:
        """Return the run of a night; None if the case has no result in it."""
        place = bisect_left(self.nights, night)
        if place == len(self.nights) or self.nights[place] != night:
            return None
        return next(run for run in self.runs if night <= run.last.night)


@dataclass(frozen=True)
class NightsHistory:
    """All nights, the oldest first, and all cases."""

    numbers: tuple[int, ...]
    """The number in the store of each night."""
    nights: tuple[Night, ...]
    """Without the cases that only passed."""
    cases: tuple[CaseHistory, ...]

    @cached_property
    def cases_of(self) -> Mapping[Track, Sequence[CaseHistory]]:
        """The cases of each track, by the names of the tracks."""
        cases: dict[Track, list[CaseHistory]] = {}
        for case in self.cases:
            cases.setdefault(case.track, []).append(case)
        return {track: cases[track] for track in sorted(cases)}

    @cached_property
    def tracks(self) -> Mapping[Track, tuple[int, ...]]:
        """The nights of each track, in order."""
        return {
            track: tuple(sorted({night for case in cases for night in case.nights}))
            for track, cases in self.cases_of.items()
        }

    def last_night(self, track: Track) -> int:
        """Return the last complete night of a track; the last one where none is
        complete.
        """
        nights = self.tracks[track]
        complete = [number for number in nights if not self.nights[number].partial]
        return (complete or nights)[-1]

    def is_new_in_last_night(self, case: CaseHistory) -> bool:
        """Return whether the last night of its track is the first in which a case fails
        in this way.

        A case without an older result of its input is new if the night says so.
        """
        tested = [run for run in case.runs if run.status is not Status.UNTESTABLE]
        if not tested or tested[-1].status is not Status.FAILED:
            return False
        first = tested[-1].first
        if first.night != self.last_night(case.track):
            return False
        if len(tested) > 1 and not first.is_edited_since(tested[-2].last):
            return True
        return first.is_new

    def last_failure(
        self, track: Track, name: str, toolchain: Revision
    ) -> Failure | None:
        """Return the failure in the last result of a case with another toolchain,
        unless it passed or its recipe expected the failure.
        """
        for case in self.cases_of.get(track, ()):
            if case.case != name:
                continue
            for night in reversed(case.nights):
                run = case.run_at(night)
                is_other = not self.nights[night].toolchain.is_same(toolchain)
                if run and is_other and run.status is not Status.UNTESTABLE:
                    if run.status is Status.FAILED:
                        return run.last.failure
                    return None
        return None

    def flaky_changes(self, case: CaseHistory) -> int:
        """Return how often a case changed its state although the compiler was the
        same.
        """
        flaky = sum(run.first.flaky for run in case.runs)
        return flaky + len(list(self._unexplained_changes(case)))

    def alternates(self, name: str, nights: int = 30) -> bool:
        """Return whether a case passed and failed in turn in the last nights although
        the compiler was the same.

        One change is not enough: an edit of the recipe or its input makes one.
        """
        since = len(self.nights) - nights
        for case in self.cases:
            if case.case == name:
                changes = [
                    {old.status, new.status}
                    for old, new in self._unexplained_changes(case)
                    if old.last.night >= since
                ]
                if changes.count({Status.PASSED, Status.FAILED}) > 1:
                    return True
        return False

    def _unexplained_changes(
        self, case: CaseHistory
    ) -> Iterator[tuple[StateRun, StateRun]]:
        """Yield the neighbouring runs that differ with the same compiler and the same
        input.
        """
        for old, new in pairwise(case.runs):
            before = self.nights[old.last.night].toolchain
            is_same = before.is_same(self.nights[new.first.night].toolchain)
            is_tested = Status.UNTESTABLE not in (old.status, new.status)
            if is_same and is_tested and not new.first.is_edited_since(old.last):
                yield old, new


def history_of(stored: Iterable[StoredNight], pattern: str = "*") -> NightsHistory:
    """Align nights, the oldest first. Results with an older toolchain than the track
    had before are left out.

    pattern: a shell pattern of the names of tracks. Raises BadInput if none fits.
    """
    alignment = _Alignment(pattern)
    for night in stored:
        alignment.add(night)
    if alignment.newest and not alignment.cases and pattern != "*":
        names = ", ".join(repr(track.name) for track in sorted(alignment.newest))
        raise BadInput(f"no track fits {pattern!r}; there are {names}")
    cases = tuple(alignment.cases.values())
    tracks = Counter(case.case for case in cases)
    for case in cases:
        case.name = case.case
        if tracks[case.case] > 1:
            case.name = f"{case.case} ({case.track.name})"
    return NightsHistory(tuple(alignment.numbers), tuple(alignment.nights), cases)


@dataclass
class _Alignment:
    """Gives the results of successive nights to their cases."""

    pattern: str
    numbers: list[int] = field(default_factory=list)
    nights: list[Night] = field(default_factory=list)
    cases: dict[tuple[Track, str], CaseHistory] = field(default_factory=dict)
    newest: dict[Track, Revision] = field(default_factory=dict)
    """The newest toolchain of each track so far."""
    # of the night before, whose cases most nights have
    _keys: bytes = b""
    _tracked: Sequence[tuple[Track, str, str]] = ()
    _tracks: Collection[Track] = ()
    _shown: frozenset[Track] | None = None
    _places: Sequence[CaseHistory | None] = ()

    def add(self, stored: StoredNight) -> None:
        if stored.keys != self._keys:
            self._keys = stored.keys
            self._tracked = [
                (Track(*names), case, source)
                for *names, case, source in json.loads(stored.keys)
            ]
            self._tracks = {track for track, _, _ in self._tracked}
            self._shown = None
        shown = self._newest_tracks(stored.summary.night.toolchain)
        if self.pattern != "*" and not shown:
            return
        if shown != self._shown:
            self._shown = shown
            self._places = [
                self._place(*names) if names[0] in shown else None
                for names in self._tracked
            ]
        night = len(self.nights)
        self.numbers.append(stored.number)
        self.nights.append(stored.summary.night)
        failures = [None, *stored.summary.failures]
        for case, (status, flaky, failure, *rest) in zip(
            self._places, stored.results, strict=True
        ):
            if case:
                known = failures[failure]
                signature = known.signature if known else ""
                kind = STATUSES[status]
                case.add(Seen(night, kind, flaky, signature, known, *rest))
        for metric, values in stored.metrics.items():
            for case, value in zip(self._places, values, strict=True):
                if case and value is not None:
                    case.metrics.setdefault(metric, {})[night] = value

    def _newest_tracks(self, toolchain: Revision) -> frozenset[Track]:
        """Return the tracks of a night that fit the pattern and had no newer toolchain
        before.
        """
        shown = set()
        for track in self._tracks:
            newest = self.newest.get(track)
            if newest is None or not is_older(toolchain, newest):
                self.newest[track] = toolchain
                if fnmatchcase(track.name, self.pattern):
                    shown.add(track)
        return frozenset(shown)

    def _place(self, track: Track, case: str, source: str) -> CaseHistory:
        place = self.cases.setdefault((track, case), CaseHistory(track, case))
        place.source = source
        return place


def is_older(toolchain: Revision, other: Revision) -> bool:
    """Return whether a toolchain is older than another, by versions or dates."""
    old, new = parse_version(toolchain.name), parse_version(other.name)
    if old and new:
        return old < new
    return bool(toolchain.date and other.date and toolchain.date < other.date)
