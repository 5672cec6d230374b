"""All stored nights next to each other: a matrix of cases and nights, and the runs of equal states in it.

The rows belong to tracks, and nothing is compared across them: a release of one compiler says nothing about another one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from triage.model.outcome import FAILING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.nightly.store import COUNTS, METRICS, Matrix, NightStore, status_in, version_of


@dataclass(frozen=True, order=True, slots=True)
class Track:
    """Results that may be compared with each other."""

    compiler: str
    suite: str
    target: str
    kind: str
    """Kind of the toolchains: release, nightly or local."""

    @property
    def name(self) -> str:
        """What pages call the track."""
        return " · ".join(filter(None, (self.compiler, self.suite, self.target, self.kind)))


@dataclass(frozen=True, slots=True)
class StateRun:
    """Nights in which a case has the same state and signature: `nights[first]` to `nights[last]`."""

    first: int
    last: int
    status: Status
    flaky: bool
    signature: int
    """Its number in `NightsHistory.signatures`; 0 for none."""
    count: int
    """How many of the nights have a result of the case."""

    @property
    def failed(self) -> bool:
        return self.status in FAILING


@dataclass(frozen=True)
class NightsHistory:
    """Cases x nights."""

    numbers: tuple[int, ...]
    """Of the nights in the store."""
    nights: tuple[Night, ...]
    """Without the cases that only passed."""
    rows: tuple[tuple[Track, str], ...]
    """Track and name of each case."""
    states: Matrix
    """0 where a night has no result."""
    failures: Matrix
    """Numbers in `kinds`; 0 for none."""
    kinds: tuple[Failure | None, ...]
    metrics: Mapping[str, Matrix]
    """By name; NaN where not measured."""

    @cached_property
    def signatures(self) -> tuple[str, ...]:
        """The different signatures; the first is empty."""
        return tuple(dict.fromkeys(kind.signature if kind else "" for kind in self.kinds))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What pages call each row: the name of the case, with its track where several have the case."""
        times = Counter(case for _, case in self.rows)
        return tuple(case if times[case] == 1 else f"{case} ({track.name})" for track, case in self.rows)

    @cached_property
    def runs(self) -> tuple[tuple[StateRun, ...], ...]:
        """The runs of equal states of each row, over the nights that have a result of it."""
        numbers = {signature: number for number, signature in enumerate(self.signatures)}
        signature_of = np.array([numbers[kind.signature if kind else ""] for kind in self.kinds], np.uint32)
        return tuple(tuple(self._runs_of(row, signature_of)) for row in range(len(self.rows)))

    @cached_property
    def tracks(self) -> Mapping[Track, tuple[int, ...]]:
        """The nights of each track, in order."""
        rows: dict[Track, list[int]] = {}
        for row, (track, _) in enumerate(self.rows):
            rows.setdefault(track, []).append(row)
        return {track: tuple(np.flatnonzero(self.states[rows[track]].any(axis=0)).tolist()) for track in sorted(rows)}

    @cached_property
    def known_states(self) -> Matrix:
        """The states, where a night has no result of a case with the last one before it."""
        nights = np.where(self.states > 0, np.arange(self.states.shape[1]), 0)
        return np.take_along_axis(self.states, np.maximum.accumulate(nights, axis=1), axis=1)

    def last_night(self, track: Track) -> int:
        """Return the last complete night of a track; the last one where none is complete."""
        nights = self.tracks[track]
        return next((number for number in reversed(nights) if not self.nights[number].partial), nights[-1])

    def kind_of(self, row: int, night: int) -> Failure | None:
        """Return the failure of a row in a night."""
        return self.kinds[int(self.failures[row, night])]

    def regressed(self, row: int, night: int) -> bool:
        """Whether a night itself found that a case passes, or fails differently, on its baseline."""
        return bool(int(self.states[row, night]) & COUNTS)

    def is_new(self, row: int) -> bool:
        """Whether a case fails since the last night of its track, and did not fail in that way before."""
        last = self.last_night(self.rows[row][0])
        tested = [run for run in self.runs[row] if run.status is not Status.UNTESTABLE]
        if not tested or tested[-1].first != last or tested[-1].status is not Status.FAILED:
            return False
        return len(tested) > 1 or self.regressed(row, last)

    @cached_property
    def flaky(self) -> Mapping[int, int]:
        """How often each row changed its state although the compiler was the same; rows that never did are left out."""
        changes = {row: sum(run.flaky for run in runs) + len(self._unexplained(row)) for row, runs in enumerate(self.runs)}
        return {row: count for row, count in changes.items() if count}

    def is_unsteady(self, case: str, nights: int = 30) -> bool:
        """Return whether a case passed and failed in turn in the last nights although the compiler was the same.

        One change is not enough: an edit of the recipe or its input makes one.
        """
        for row in (row for row, (_, name) in enumerate(self.rows) if name == case):
            recent = [pair for pair in self._unexplained(row) if pair[0].last >= len(self.nights) - nights]
            if sum({old.status, new.status} == {Status.PASSED, Status.FAILED} for old, new in recent) > 1:
                return True
        return False

    def _unexplained(self, row: int) -> list[tuple[StateRun, StateRun]]:
        """Return the changes of a row's state without a change of the compiler."""
        found = []
        for old, new in pairwise(self.runs[row]):
            before, after = self.nights[old.last].toolchain, self.nights[new.first].toolchain
            is_same = (before.commit or before.name) == (after.commit or after.name)
            if is_same and Status.UNTESTABLE not in (old.status, new.status):
                found.append((old, new))
        return found

    def _runs_of(self, row: int, signature_of: Matrix) -> Iterator[StateRun]:
        present = np.flatnonzero(self.states[row])
        states = self.states[row, present] & ~np.uint8(COUNTS)
        signatures = signature_of[self.failures[row, present]]
        changes = np.flatnonzero((np.diff(states) != 0) | (np.diff(signatures) != 0)) + 1
        for first, end in pairwise([0, *changes.tolist(), len(present)]):
            status, flaky = status_in(int(states[first]))
            yield StateRun(int(present[first]), int(present[end - 1]), status, flaky, int(signatures[first]), end - first)


def load_history(store: NightStore) -> NightsHistory:
    """Read all nights, the oldest first. Results with an older toolchain than the track had before are left out."""
    found = ((number, store.columns(number)) for number in store.numbers())
    read = sorted(((number, columns) for number, columns in found if columns), key=lambda it: (it[1].night.started, it[0]))
    rows: dict[tuple[Track, str], int] = {}
    placed: list[tuple[Matrix, Matrix]] = []  # for each night, rows and the entries that belong there
    newest: dict[Track, Revision] = {}
    keys, cases, at, tracks = b"", list[tuple[Track, str]](), np.zeros(0, np.int64), set[Track]()
    for _, columns in read:
        if columns.keys != keys:  # most nights have the cases of the one before
            keys = columns.keys
            cases = [(Track(*key[:-1]), key[-1]) for key in json.loads(keys)]
            at = np.array([rows.setdefault(case, len(rows)) for case in cases], np.int64)
            tracks = {track for track, _ in cases}
        toolchain, entries = columns.night.toolchain, np.arange(len(cases))
        older = {track for track in tracks if track in newest and _is_older(toolchain, newest[track])}
        newest.update(dict.fromkeys(tracks - older, toolchain))
        if older:
            entries = np.array([number for number, (track, _) in enumerate(cases) if track not in older], np.int64)
        placed.append((at[entries], entries))
    shape = len(rows), len(read)
    states, failures = np.zeros(shape, np.uint8), np.zeros(shape, np.uint32)
    metrics = {name: np.full(shape, np.nan, np.float32) for name in METRICS}
    kinds: list[Failure | None] = [None]
    for night, ((_, columns), (at, entries)) in enumerate(zip(read, placed, strict=True)):
        own = columns.entries[entries]
        states[at, night] = own["state"]
        failures[at, night] = np.where(own["failure"] > 0, own["failure"] + (len(kinds) - 1), 0)
        kinds += columns.kinds
        for name in METRICS:
            metrics[name][at, night] = own[name]
    return NightsHistory(
        numbers=tuple(number for number, _ in read),
        nights=tuple(columns.night for _, columns in read),
        rows=tuple(rows),
        states=states,
        failures=failures,
        kinds=tuple(kinds),
        metrics={name: values for name, values in metrics.items() if np.isfinite(values).any()},
    )


def _is_older(toolchain: Revision, other: Revision) -> bool:
    """Return whether a toolchain is known to be older than another one of its kind."""
    old, new = version_of(toolchain.name), version_of(other.name)
    if old and new:
        return old < new
    return bool(toolchain.date and other.date and toolchain.date < other.date)
