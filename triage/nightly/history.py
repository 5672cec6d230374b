"""All stored nights next to each other: a matrix of cases and nights, and the runs of
equal states in it.

The rows belong to tracks, and nothing is compared across them: a release of one
compiler says nothing about another one.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from triage.investigate.result import CaseChangeKind, CaseResult, ClusterKey
from triage.model.errors import BadInput
from triage.model.outcome import FAILING, Failure, Status
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.result import Night
from triage.nightly.verdict import BackendVerdict
from triage.recipes.values import parse_version

Matrix = NDArray[Any]
# those that trends show
METRICS = ("cpu_seconds", "run_seconds", "dispatches", "artifact_bytes")
# A state is one byte: 1 + the number of the status, and four bits. 0: no result.
STATUS_BITS, _FLAKY_BIT, _NEW_FAILURE_BIT = 0x0F, 0x40, 0x80
_NOT_COMPARED_BIT = 0x20  # the case could not be tested on one of the toolchains
_STATUSES = tuple(Status)
_ENTRY = np.dtype(
    [
        ("state", np.uint8),
        ("input", np.uint32),
        ("failure", np.uint32),
        *((name, np.float32) for name in METRICS),
    ]
)


class CaseKey(NamedTuple):
    """Identifies the results that may be compared with those of a case."""

    compiler: str
    suite: str
    target: str
    """Backend and chip."""
    kind: str
    """Kind of the toolchain."""
    case: str
    source: str
    """The file of the recipe."""

    @property
    def row(self) -> Row:
        return Row(Track(*self[:4]), self.case)


@dataclass(frozen=True, slots=True)
class NightColumns:
    """The part of a night that a history of all nights needs, which is read in a
    fraction of the time.
    """

    night: Night
    """Without the cases that only passed."""
    keys: bytes
    """JSON of the `CaseKey` of each case."""
    failures: Sequence[Failure]
    """The different failures of the night."""
    verdicts: Sequence[BackendVerdict]
    """What the night says of each backend."""
    entries: Matrix
    """For each case: its state; the beginning of the hash of its input, 0 if unknown;
    the number of its failure in `failures` from 1, 0 for none; metrics or NaN.
    """

    @property
    def suites(self) -> tuple[str, ...]:
        return _suites_in(self.keys)

    @property
    def statuses(self) -> dict[Status, int]:
        """How many cases have each status, in the order of the cases."""
        counts: Counter[Status] = Counter()
        for state, count in Counter(self.entries["state"].tolist()).items():
            counts[status_in(state)] += count
        return dict(counts)

    @classmethod
    def of(cls, night: Night) -> NightColumns:
        # by signature and headline
        numbers: dict[tuple[str, str], int] = {}
        failures: dict[tuple[str, str], Failure] = {}
        entries = []
        for case in night.cases:
            number = 0
            if case.failure:
                text = case.failure.signature, case.failure.headline
                number = numbers.setdefault(text, len(numbers) + 1)
                failures[text] = case.failure
            measured = case.numbers
            metrics = [measured.get(name, np.nan) for name in METRICS]
            state, own_input = _state_of(case), int(case.input[:8] or "0", 16)
            entries.append((state, own_input, number, *metrics))
        return cls(
            replace(night, cases=list(filter(_is_listed, night.cases))),
            json.dumps([_key_of(case, night.kind) for case in night.cases]).encode(),
            list(failures.values()),
            night.verdict,
            np.array(entries, _ENTRY),
        )

    @classmethod
    def read(cls, content: bytes) -> NightColumns:
        """Return the columns in a file. ValueError or zlib.error for a damaged one."""
        head, keys, entries = zlib.decompress(content).split(b"\n", 2)
        known = _head().validate_json(head)
        return cls(known[0], keys, *known[1:], np.frombuffer(entries, _ENTRY))

    def content(self) -> bytes:
        """Return the content of a file with the columns."""
        head = _head().dump_json(
            (self.night, list(self.failures), list(self.verdicts)),
            by_alias=True,
            exclude_defaults=True,
        )
        return zlib.compress(b"\n".join((head, self.keys, self.entries.tobytes())))


def _keys_in(keys: bytes) -> list[CaseKey]:
    return [CaseKey(*key) for key in json.loads(keys)]


@cache
def _suites_in(keys: bytes) -> tuple[str, ...]:
    return tuple(sorted({key.suite for key in _keys_in(keys)}))


def row_of(case: CaseResult, kind: ToolchainKind) -> Row:
    """Return the row of a case that ran on a kind of toolchain."""
    return _key_of(case, kind).row


def _key_of(case: CaseResult, kind: ToolchainKind) -> CaseKey:
    target = ""
    if case.target:
        target = f"{case.target.backend} {case.target.chip or ''}".strip()
    return CaseKey(case.compiler, case.suite, target, kind, case.case, case.source)


def _state_of(case: CaseResult) -> int:
    state = 1 + _STATUSES.index(case.status)
    if case.flaky or case.change is CaseChangeKind.FLAKY:
        state |= _FLAKY_BIT
    if case.is_new_failure:
        state |= _NEW_FAILURE_BIT
    if case.change in (CaseChangeKind.UNTESTABLE, CaseChangeKind.NEW_UNTESTED):
        state |= _NOT_COMPARED_BIT
    return state


def status_in(state: int) -> Status:
    """Return the status that a state stands for."""
    return _STATUSES[(state & STATUS_BITS) - 1]


def is_untested(states: Matrix) -> Matrix:
    """Return which cases a night could not compare and found no failure in."""
    bits = _NOT_COMPARED_BIT | _NEW_FAILURE_BIT
    untested: Matrix = (states & bits) == _NOT_COMPARED_BIT
    return untested


def _is_listed(case: CaseResult) -> bool:
    """Return whether the columns keep a case whole, because it did not only pass."""
    kinds = (CaseChangeKind.FIXED, CaseChangeKind.FLAKY)
    changed = case.is_new_failure or case.change in kinds
    is_xpass = case.status is Status.XPASS
    return bool(changed or is_xpass or case.bisections or case.issue)


Head = tuple[Night, list[Failure], list[BackendVerdict]]


@cache
def _head() -> TypeAdapter[Head]:
    return TypeAdapter(Head)


@dataclass(frozen=True, order=True, slots=True)
class Track:
    """Results that may be compared with each other."""

    compiler: str
    suite: str
    target: str
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


class Row(NamedTuple):
    """A case in a track, which is a row of the history."""

    track: Track
    case: str


@dataclass(frozen=True, slots=True)
class StateRun:
    """Nights in which a case has the same state and signature: `nights[first]` to
    `nights[last]`.
    """

    first: int
    last: int
    status: Status
    flaky: bool
    signature: int
    """Index in `NightsHistory.signatures`; 0 for none."""
    count: int
    """How many of the nights have a result of the case."""

    @property
    def failed(self) -> bool:
        return self.status in FAILING


@dataclass(frozen=True)
class NightsHistory:
    """States of all cases in all nights; matrices have the shape (cases, nights)."""

    numbers: tuple[int, ...]
    """The number in the store of each night."""
    nights: tuple[Night, ...]
    """Without the cases that only passed."""
    rows: tuple[Row, ...]
    sources: tuple[str, ...]
    """The file of the recipe of each row, where it is known."""
    states: Matrix
    """0 where a night has no result."""
    failure_numbers: Matrix
    """Indices of `failures`."""
    failures: tuple[Failure | None, ...]
    """The failures of all nights; the first is None, for cases without one."""
    inputs: Matrix
    """The beginning of the hash of each case's input; 0 where it is not known."""
    metrics: Mapping[str, Matrix]
    """A matrix for each metric; NaN where it was not measured."""

    @cached_property
    def signatures(self) -> tuple[str, ...]:
        """The different signatures; the first is empty."""
        return tuple(dict.fromkeys(map(_signature_of, self.failures)))

    @cached_property
    def signature_numbers(self) -> Matrix:
        """The index in `signatures` of each of `failures`."""
        numbers = {
            signature: number for number, signature in enumerate(self.signatures)
        }
        of_failures = [numbers[_signature_of(failure)] for failure in self.failures]
        return np.array(of_failures, np.uint32)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each row on pages: the case, and its track if several tracks have
        the case.
        """
        tracks = Counter(row.case for row in self.rows)
        return tuple(
            case if tracks[case] == 1 else f"{case} ({track.name})"
            for track, case in self.rows
        )

    @cached_property
    def runs(self) -> tuple[tuple[StateRun, ...], ...]:
        """The runs of equal states of each row, over the nights that have a result of
        it.
        """
        return tuple(tuple(self._runs_of(row)) for row in range(len(self.rows)))

    @cached_property
    def rows_of(self) -> Mapping[Track, Sequence[int]]:
        """The rows of each track."""
        rows: dict[Track, list[int]] = {}
        for number, row in enumerate(self.rows):
            rows.setdefault(row.track, []).append(number)
        return rows

    @cached_property
    def tracks(self) -> Mapping[Track, tuple[int, ...]]:
        """The nights of each track, in order."""
        rows = self.rows_of
        return {track: self._nights_with(rows[track]) for track in sorted(rows)}

    def _nights_with(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Return the nights that have a result of one of the rows."""
        return tuple(np.flatnonzero(self.states[rows].any(axis=0)).tolist())

    @cached_property
    def known_states(self) -> Matrix:
        """The states; a night without a result of a case repeats the last one before
        it.
        """
        nights = np.where(self.states > 0, np.arange(self.states.shape[1]), 0)
        return np.take_along_axis(
            self.states, np.maximum.accumulate(nights, axis=1), axis=1
        )

    def of_tracks(self, pattern: str) -> NightsHistory:
        """Return the part of the history whose tracks match a shell pattern. Raises
        BadInput if there is none.
        """
        kept = [
            number
            for number, row in enumerate(self.rows)
            if fnmatchcase(row.track.name, pattern)
        ]
        if self.rows and not kept:
            names = ", ".join(repr(track.name) for track in self.tracks)
            raise BadInput(f"no track fits {pattern!r}; there are {names}")
        nights = self._nights_with(kept)
        part = np.ix_(kept, nights)
        return replace(
            self,
            numbers=tuple(self.numbers[night] for night in nights),
            nights=tuple(self.nights[night] for night in nights),
            rows=tuple(self.rows[row] for row in kept),
            sources=tuple(self.sources[row] for row in kept),
            states=self.states[part],
            failure_numbers=self.failure_numbers[part],
            inputs=self.inputs[part],
            metrics={name: values[part] for name, values in self.metrics.items()},
        )

    def last_night(self, track: Track) -> int:
        """Return the last complete night of a track; the last one where none is
        complete.
        """
        nights = self.tracks[track]
        complete = [number for number in nights if not self.nights[number].partial]
        return (complete or nights)[-1]

    def failure_of(self, row: int, night: int) -> Failure | None:
        return self.failures[int(self.failure_numbers[row, night])]

    def is_new_failure(self, row: int, night: int) -> bool:
        """Return whether a night calls the failure of a case new."""
        return bool(int(self.states[row, night]) & _NEW_FAILURE_BIT)

    def differs_on_baseline(self, row: int, night: int) -> bool:
        """Return whether a case passes, or fails differently, on the baseline of a
        night in which it fails.
        """
        state = int(self.states[row, night])
        return bool(state & _NEW_FAILURE_BIT) and not state & _NOT_COMPARED_BIT

    def has_new_input(self, row: int, before: int, night: int) -> bool:
        """Return whether the input of a case was edited between two nights."""
        old, new = int(self.inputs[row, before]), int(self.inputs[row, night])
        return 0 not in (old, new) and old != new

    def is_new_in_last_night(self, row: int) -> bool:
        """Return whether the last night of its track is the first in which a case fails
        in this way.

        A case without an older result of its input is new if the night says so.
        """
        tested = [run for run in self.runs[row] if run.status is not Status.UNTESTABLE]
        if not tested:
            return False
        last = self.last_night(self.rows[row].track)
        if tested[-1].status is not Status.FAILED or tested[-1].first != last:
            return False
        if len(tested) > 1 and not self.has_new_input(row, tested[-2].last, last):
            return True
        return self.is_new_failure(row, last)

    def last_failure(self, row: Row, toolchain: Revision) -> Failure | None:
        """Return the failure in the last result of a case with another toolchain,
        unless it passed or its recipe expected the failure.
        """
        if row not in self.rows:
            return None
        number = self.rows.index(row)
        for night in np.flatnonzero(self.states[number])[::-1].tolist():
            status = status_in(int(self.states[number, night]))
            is_other = not self.nights[night].toolchain.is_same(toolchain)
            if is_other and status is Status.FAILED:
                return self.failure_of(number, night)
            if is_other and status is not Status.UNTESTABLE:
                return None
        return None

    @cached_property
    def flaky_changes(self) -> Mapping[int, int]:
        """How often each row changed its state although the compiler was the same; rows
        that never did are left out.
        """
        changes = {
            row: sum(run.flaky for run in runs) + len(self._unexplained_changes(row))
            for row, runs in enumerate(self.runs)
        }
        return {row: count for row, count in changes.items() if count}

    def alternates(self, case: str, nights: int = 30) -> bool:
        """Return whether a case passed and failed in turn in the last nights although
        the compiler was the same.

        One change is not enough: an edit of the recipe or its input makes one.
        """
        since = len(self.nights) - nights
        for number, row in enumerate(self.rows):
            if row.case != case:
                continue
            changes = [
                {old.status, new.status}
                for old, new in self._unexplained_changes(number)
                if old.last >= since
            ]
            if changes.count({Status.PASSED, Status.FAILED}) > 1:
                return True
        return False

    def _unexplained_changes(self, row: int) -> list[tuple[StateRun, StateRun]]:
        """Return the neighbouring runs of a row that differ with the same compiler and
        the same input.
        """
        found = []
        for old, new in pairwise(self.runs[row]):
            before = self.nights[old.last].toolchain
            after = self.nights[new.first].toolchain
            if self.has_new_input(row, old.last, new.first):
                continue
            if before.is_same(after) and Status.UNTESTABLE not in (
                old.status,
                new.status,
            ):
                found.append((old, new))
        return found

    def _runs_of(self, row: int) -> Iterator[StateRun]:
        present = np.flatnonzero(self.states[row])
        # what the night compared it with is left out
        states = self.states[row, present] & np.uint8(STATUS_BITS | _FLAKY_BIT)
        signatures = self.signature_numbers[self.failure_numbers[row, present]]
        is_change = (np.diff(states) != 0) | (np.diff(signatures) != 0)
        starts = np.flatnonzero(is_change) + 1
        for first, end in pairwise([0, *starts.tolist(), len(present)]):
            yield StateRun(
                int(present[first]),
                int(present[end - 1]),
                status_in(int(states[first])),
                bool(states[first] & _FLAKY_BIT),
                int(signatures[first]),
                end - first,
            )


def _signature_of(failure: Failure | None) -> str:
    return failure.signature if failure else ""


def history_of(nights: Iterable[tuple[int, NightColumns]]) -> NightsHistory:
    """Align nights with their numbers. Results with an older toolchain than the track
    had before are left out.
    """
    read = sorted(nights, key=lambda entry: (entry[1].night.started, entry[0]))
    alignment = _Alignment()
    places = [alignment.places_of(columns) for _, columns in read]
    shape = len(alignment.rows), len(read)
    states, numbers = np.zeros(shape, np.uint8), np.zeros(shape, np.uint32)
    inputs = np.zeros(shape, np.uint32)
    metrics = {name: np.full(shape, np.nan, np.float32) for name in METRICS}
    failures: list[Failure | None] = [None]
    for night, (_, columns) in enumerate(read):
        rows, entries = places[night]
        own = columns.entries[entries]
        states[rows, night] = own["state"]
        inputs[rows, night] = own["input"]
        # the failures of this night follow those of the earlier ones
        offset = len(failures) - 1
        numbers[rows, night] = np.where(own["failure"] > 0, own["failure"] + offset, 0)
        failures += columns.failures
        for name in METRICS:
            metrics[name][rows, night] = own[name]
    return NightsHistory(
        numbers=tuple(number for number, _ in read),
        nights=tuple(columns.night for _, columns in read),
        rows=tuple(alignment.rows),
        sources=tuple(alignment.sources[row] for row in alignment.rows),
        states=states,
        failure_numbers=numbers,
        failures=tuple(failures),
        inputs=inputs,
        metrics={
            name: values
            for name, values in metrics.items()
            if np.isfinite(values).any()
        },
    )


class _Alignment:
    """Gives each case of successive nights a row."""

    def __init__(self) -> None:
        self.rows: dict[Row, int] = {}
        self.sources: dict[Row, str] = {}
        """The file of each case."""
        self._newest: dict[Track, Revision] = {}
        # of the night before, whose cases most nights have
        self._keys = b""
        self._cases: list[Row] = []
        self._left_out: set[Track] | None = None
        self._places = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def places_of(self, columns: NightColumns) -> tuple[Matrix, Matrix]:
        """Return the rows of a night's results, and the indices of its entries that
        belong there.
        """
        if columns.keys != self._keys:
            keys = _keys_in(columns.keys)
            self._keys, self._left_out = columns.keys, None
            self._cases = [key.row for key in keys]
            self.sources |= {key.row: key.source for key in keys}
        older = self._older_tracks(columns.night.toolchain)
        if older != self._left_out:
            self._left_out = older
            entries = [
                index
                for index, case in enumerate(self._cases)
                if case.track not in older
            ]
            rows = [
                self.rows.setdefault(self._cases[index], len(self.rows))
                for index in entries
            ]
            self._places = np.array(rows, np.int64), np.array(entries, np.int64)
        return self._places

    def _older_tracks(self, toolchain: Revision) -> set[Track]:
        """Return the tracks that had a newer toolchain before; note the toolchain for
        the others.
        """
        older = set()
        for track in {case.track for case in self._cases}:
            newest = self._newest.get(track)
            if newest and is_older(toolchain, newest):
                older.add(track)
            else:
                self._newest[track] = toolchain
        return older


def is_older(toolchain: Revision, other: Revision) -> bool:
    """Return whether a toolchain is older than another, by versions or dates."""
    old, new = parse_version(toolchain.name), parse_version(other.name)
    if old and new:
        return old < new
    return bool(toolchain.date and other.date and toolchain.date < other.date)
