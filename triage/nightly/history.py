"""All stored nights next to each other: what each case did in each night, as runs of
equal results.

Cases belong to tracks, and nothing is compared across them: a release of one compiler
says nothing about another one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import pairwise
from typing import Any

from triage.investigate.result import NEW_FAILURES, CaseChangeKind
from triage.model.errors import BadInput
from triage.model.outcome import FAILING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.nightly.stored_night import StoredNight, Track
from triage.recipes.values import parse_version

_FLAKY_NIGHTS = 30  # in which changes make a case flaky
_UNCOMPARED = (CaseChangeKind.UNTESTABLE, CaseChangeKind.NEW_UNTESTED)


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

    @property
    def is_new(self) -> bool:
        """Whether the night calls the failure new."""
        return self.change in NEW_FAILURES

    @property
    def is_compared(self) -> bool:
        """Whether the case could be tested on both toolchains."""
        return self.change not in _UNCOMPARED

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
    name: str
    """On pages: the case, and its track if several tracks have the case."""
    source: str = ""
    """The file of its recipe, where it is known."""
    nights: list[int] = field(default_factory=list)
    """Indices of the nights that have a result of it."""
    runs: list[StateRun] = field(default_factory=list)
    metrics: dict[str, dict[int, float]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """What was measured, by metric and night."""
    _row: Sequence[Any] = ()

    def add(self, night: int, row: list[Any], failures: Sequence[Failure]) -> None:
        """Add the result in the next night. row: of a stored night."""
        self.nights.append(night)
        status, change, place, content, self.source = row
        if row == self._row and place is None:
            self.now.last.night = night
            self.now.count += 1
            return
        self._row = row
        failure = None if place is None else failures[place]
        seen = Seen(night, Status(status), failure, CaseChangeKind(change), content)
        run = self.runs[-1] if self.runs else None
        if (
            run
            and run.last.status is seen.status
            and run.last.signature == seen.signature
        ):
            run.last = seen
            run.count += 1
        else:
            self.runs.append(StateRun(seen, replace(seen)))

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

    numbers: Sequence[int]
    """The number in the store of each night."""
    nights: Sequence[Night]
    """Without the cases that only passed."""
    cases: Sequence[CaseHistory]

    @cached_property
    def cases_of(self) -> Mapping[Track, Sequence[CaseHistory]]:
        """The cases of each track, by the names of the tracks."""
        cases: dict[Track, list[CaseHistory]] = {}
        for case in self.cases:
            cases.setdefault(case.track, []).append(case)
        return {track: cases[track] for track in sorted(cases)}

    @cached_property
    def tracks(self) -> Mapping[Track, Sequence[int]]:
        """The nights of each track, in order."""
        return {
            track: sorted({night for case in cases for night in case.nights})
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

    def is_known(
        self, track: Track, name: str, failure: Failure, toolchain: Revision
    ) -> bool:
        """Return whether the last result of a case with another toolchain is a failure
        that no recipe expected.
        """
        cases = [case for case in self.cases_of.get(track, ()) if case.case == name]
        for run in reversed(cases[0].runs if cases else ()):
            is_other = not self.nights[run.first.night].toolchain.is_same(toolchain)
            if is_other and run.status is not Status.UNTESTABLE:
                is_same = run.last.signature == failure.signature
                return is_same and run.status is Status.FAILED
        return False

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
            is_tested = Status.UNTESTABLE not in (old.status, new.status)
            is_edited = new.first.is_edited_since(old.last)
            count += is_same and is_tested and not is_edited
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
    tracks: dict[Track, dict[str, CaseHistory]] = {}
    for entry in stored:
        toolchain, is_shown = entry.night.toolchain, False
        for track, rows, numbers in entry.results():
            if is_older(toolchain, newest.get(track, toolchain)):
                continue
            newest[track] = toolchain
            if fnmatchcase(track.name, pattern):
                is_shown = True
                cases = tracks.setdefault(track, {})
                night = len(shown)
                for name, row in rows.items():
                    if name not in cases:
                        cases[name] = CaseHistory(track, name, name)
                    cases[name].add(night, row, entry.failures)
                for metric, values in numbers.items():
                    for name, value in zip(rows, values, strict=True):
                        if value is not None:
                            cases[name].metrics[metric][night] = value
        if is_shown or pattern == "*":
            shown.append(entry)
    if newest and not tracks:
        names = ", ".join(repr(track.name) for track in sorted(newest))
        raise BadInput(f"no track fits {pattern!r}; there are {names}")
    aligned = [case for cases in tracks.values() for case in cases.values()]
    counts = Counter(case.case for case in aligned)
    for case in aligned:
        if counts[case.case] > 1:
            case.name = f"{case.case} ({case.track.name})"
    return NightsHistory(
        [entry.number for entry in shown], [entry.night for entry in shown], aligned
    )


def is_older(toolchain: Revision, other: Revision) -> bool:
    """Return whether a toolchain is older than another, by versions or dates."""
    old, new = parse_version(toolchain.name), parse_version(other.name)
    if old and new:
        return old < new
    return bool(toolchain.date and other.date and toolchain.date < other.date)
