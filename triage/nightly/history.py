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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from triage.investigate.result import CaseChangeKind, CaseResult, ClusterKey
from triage.model.errors import BadInput
from triage.model.outcome import FAILING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.nightly.verdict import BackendVerdict
from triage.recipes.values import parse_version

Matrix = NDArray[Any]
# those that trends show
METRICS = ("cpu_seconds", "run_seconds", "dispatches", "artifact_bytes")
STATUS, FLAKY, COUNTS = 0x3F, 0x40, 0x80  # parts of a state
_STATUSES = tuple(Status)
_ENTRY = np.dtype(
    [
        ("state", np.uint8),
        ("failure", np.uint32),
        *((name, np.float32) for name in METRICS),
    ]
)


@dataclass(frozen=True, slots=True)
class NightColumns:
    """The part of a night that a history of all nights needs, which is read in a
    fraction of the time.
    """

    night: Night
    """Without the cases that only passed."""
    keys: bytes
    """JSON of a list: compiler, suite, target, kind of the toolchain, name and file of
    each case.
    """
    kinds: Sequence[Failure]
    entries: Matrix
    """For each case: its state, see `status_in`; the number of its failure in `kinds`
    from 1, 0 for none; metrics or NaN.
    """

    @property
    def suites(self) -> tuple[str, ...]:
        return _suites_in(self.keys)

    @property
    def statuses(self) -> dict[Status, int]:
        """How many cases have each status, in the order of the cases."""
        counts: dict[Status, int] = {}
        for state, count in Counter(self.entries["state"].tolist()).items():
            status = status_in(state)[0]
            counts[status] = counts.get(status, 0) + count
        return counts

    @property
    def verdicts(self) -> list[BackendVerdict]:
        """What the night says of each backend."""
        counts = _backends_in(self.keys)
        found = {verdict.backend: verdict for verdict in self.night.verdict}
        for backend in counts:
            found.setdefault(backend, BackendVerdict(backend, 0, 0, 0))
        verdicts = [
            replace(verdict, cases=counts[verdict.backend])
            for verdict in found.values()
        ]
        return sorted(verdicts, key=lambda one: (-one.broken, one.backend))

    @classmethod
    def of(cls, night: Night) -> NightColumns:
        kind = kind_of(night.toolchain.name)
        numbers: dict[tuple[str, str], int] = {}
        kinds: dict[int, Failure] = {}
        keys, entries = [], []
        for case in night.cases:
            if case.target is None:
                target = ""
            else:
                target = " ".join(filter(None, (case.target.backend, case.target.chip)))
            keys.append(
                (case.compiler, case.suite, target, kind, case.case, case.source)
            )
            number = 0
            if case.failure:
                text = case.failure.signature, case.failure.headline
                number = numbers.setdefault(text, len(numbers) + 1)
                kinds[number] = case.failure
            numbers_of = case.numbers
            entries.append(
                (
                    _state(case),
                    number,
                    *(numbers_of.get(name, np.nan) for name in METRICS),
                )
            )
        listed = [case for case in night.cases if _says_more(case)]
        head = replace(night, cases=listed)
        return cls(
            head,
            json.dumps(keys).encode(),
            list(kinds.values()),
            np.array(entries, _ENTRY),
        )

    @classmethod
    def read(cls, content: bytes) -> NightColumns:
        """Return the columns in a file. ValueError or zlib.error for a damaged one."""
        head, keys, entries = zlib.decompress(content).split(b"\n", 2)
        night, kinds = _head().validate_json(head)
        return cls(night, keys, kinds, np.frombuffer(entries, _ENTRY))

    def content(self) -> bytes:
        """Return the content of a file with the columns."""
        head = _head().dump_json(
            (self.night, list(self.kinds)), by_alias=True, exclude_defaults=True
        )
        return zlib.compress(b"\n".join((head, self.keys, self.entries.tobytes())))


@cache
def _suites_in(keys: bytes) -> tuple[str, ...]:
    return tuple(sorted({suite for _, suite, *_ in json.loads(keys)}))


@cache
def _backends_in(keys: bytes) -> Counter[str]:
    """Return how many cases each backend has."""
    targets = (target for _, _, target, *_ in json.loads(keys))
    return Counter(target.partition(" ")[0] for target in targets)


def _says_more(case: CaseResult) -> bool:
    """Return whether a case did not only pass, or has more than its state."""
    kinds = (CaseChangeKind.FIXED, CaseChangeKind.FLAKY)
    changed = case.counts or case.change in kinds or case.status is Status.XPASS
    return bool(changed or case.bisections or case.issue)


@cache
def _head() -> TypeAdapter[tuple[Night, list[Failure]]]:
    return TypeAdapter(tuple[Night, list[Failure]])


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
        return " · ".join(
            filter(None, (self.compiler, self.suite, self.target, self.kind))
        )

    def key_of(self, failure: Failure) -> ClusterKey:
        return ClusterKey(
            self.compiler, self.target.partition(" ")[0], failure.signature
        )


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
    """Its number in `NightsHistory.signatures`; 0 for none."""
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
    rows: tuple[tuple[Track, str], ...]
    """Track and name of each case."""
    sources: tuple[str, ...]
    """The file of the recipe of each case, where it is known."""
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
        return tuple(
            dict.fromkeys(kind.signature if kind else "" for kind in self.kinds)
        )

    @cached_property
    def signature_of(self) -> Matrix:
        """The number in `signatures` of each of `kinds`."""
        numbers = {
            signature: number for number, signature in enumerate(self.signatures)
        }
        return np.array(
            [numbers[kind.signature if kind else ""] for kind in self.kinds], np.uint32
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What pages call each row: the name of the case, with its track where several
        have the case.
        """
        times = Counter(case for _, case in self.rows)
        return tuple(
            case if times[case] == 1 else f"{case} ({track.name})"
            for track, case in self.rows
        )

    @cached_property
    def runs(self) -> tuple[tuple[StateRun, ...], ...]:
        """The runs of equal states of each row, over the nights that have a result of
        it.
        """
        return tuple(
            tuple(self._runs_of(row, self.signature_of))
            for row in range(len(self.rows))
        )

    @cached_property
    def tracks(self) -> Mapping[Track, tuple[int, ...]]:
        """The nights of each track, in order."""
        rows: dict[Track, list[int]] = {}
        for row, (track, _) in enumerate(self.rows):
            rows.setdefault(track, []).append(row)
        return {
            track: tuple(np.flatnonzero(self.states[rows[track]].any(axis=0)).tolist())
            for track in sorted(rows)
        }

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
            row
            for row, (track, _) in enumerate(self.rows)
            if fnmatchcase(track.name, pattern)
        ]
        if self.rows and not kept:
            names = ", ".join(repr(track.name) for track in self.tracks)
            raise BadInput(f"no track fits {pattern!r}; there are {names}")
        nights = np.flatnonzero(self.states[kept].any(axis=0)).tolist()
        part = np.ix_(kept, nights)
        return replace(
            self,
            numbers=tuple(self.numbers[night] for night in nights),
            nights=tuple(self.nights[night] for night in nights),
            rows=tuple(self.rows[row] for row in kept),
            sources=tuple(self.sources[row] for row in kept),
            states=self.states[part],
            failures=self.failures[part],
            metrics={name: values[part] for name, values in self.metrics.items()},
        )

    def last_night(self, track: Track) -> int:
        """Return the last complete night of a track; the last one where none is
        complete.
        """
        nights = self.tracks[track]
        return next(
            (number for number in reversed(nights) if not self.nights[number].partial),
            nights[-1],
        )

    def kind_of(self, row: int, night: int) -> Failure | None:
        return self.kinds[int(self.failures[row, night])]

    def regressed(self, row: int, night: int) -> bool:
        """Return whether a case passes, or fails differently, on the baseline of a
        night in which it fails.
        """
        return bool(int(self.states[row, night]) & COUNTS)

    def is_new(self, row: int) -> bool:
        """Return whether the last night of its track is the first in which a case fails
        in this way.

        A case without an older result is new if it regressed in that night.
        """
        tested = [run for run in self.runs[row] if run.status is not Status.UNTESTABLE]
        if not tested:
            return False
        last = self.last_night(self.rows[row][0])
        if tested[-1].status is not Status.FAILED or tested[-1].first != last:
            return False
        has_older_result = len(tested) > 1
        return has_older_result or self.regressed(row, last)

    @cached_property
    def flaky(self) -> Mapping[int, int]:
        """How often each row changed its state although the compiler was the same; rows
        that never did are left out.
        """
        changes = {
            row: sum(run.flaky for run in runs) + len(self._unexplained(row))
            for row, runs in enumerate(self.runs)
        }
        return {row: count for row, count in changes.items() if count}

    def is_unsteady(self, case: str, nights: int = 30) -> bool:
        """Return whether a case passed and failed in turn in the last nights although
        the compiler was the same.

        One change is not enough: an edit of the recipe or its input makes one.
        """
        for row in (row for row, (_, name) in enumerate(self.rows) if name == case):
            recent = [
                pair
                for pair in self._unexplained(row)
                if pair[0].last >= len(self.nights) - nights
            ]
            if (
                sum(
                    {old.status, new.status} == {Status.PASSED, Status.FAILED}
                    for old, new in recent
                )
                > 1
            ):
                return True
        return False

    def _unexplained(self, row: int) -> list[tuple[StateRun, StateRun]]:
        found = []
        for old, new in pairwise(self.runs[row]):
            before = self.nights[old.last].toolchain
            after = self.nights[new.first].toolchain
            is_same = (before.commit or before.name) == (after.commit or after.name)
            if is_same and Status.UNTESTABLE not in (old.status, new.status):
                found.append((old, new))
        return found

    def _runs_of(self, row: int, signature_of: Matrix) -> Iterator[StateRun]:
        present = np.flatnonzero(self.states[row])
        states = self.states[row, present] & ~np.uint8(COUNTS)
        signatures = signature_of[self.failures[row, present]]
        changes = (
            np.flatnonzero((np.diff(states) != 0) | (np.diff(signatures) != 0)) + 1
        )
        for first, end in pairwise([0, *changes.tolist(), len(present)]):
            status, flaky = status_in(int(states[first]))
            yield StateRun(
                int(present[first]),
                int(present[end - 1]),
                status,
                flaky,
                int(signatures[first]),
                end - first,
            )


def history_of(nights: Iterable[tuple[int, NightColumns]]) -> NightsHistory:
    """Align nights with their numbers. Results with an older toolchain than the track
    had before are left out.
    """
    read = sorted(nights, key=lambda entry: (entry[1].night.started, entry[0]))
    rows, sources, placed = _aligned([columns for _, columns in read])
    shape = len(rows), len(read)
    states, failures = np.zeros(shape, np.uint8), np.zeros(shape, np.uint32)
    metrics = {name: np.full(shape, np.nan, np.float32) for name in METRICS}
    kinds: list[Failure | None] = [None]
    for night, ((_, columns), (at, entries)) in enumerate(
        zip(read, placed, strict=True)
    ):
        own = columns.entries[entries]
        states[at, night] = own["state"]
        failures[at, night] = np.where(
            own["failure"] > 0, own["failure"] + (len(kinds) - 1), 0
        )
        kinds += columns.kinds
        for name in METRICS:
            metrics[name][at, night] = own[name]
    return NightsHistory(
        numbers=tuple(number for number, _ in read),
        nights=tuple(columns.night for _, columns in read),
        rows=tuple(rows),
        sources=tuple(sources[key] for key in rows),
        states=states,
        failures=failures,
        kinds=tuple(kinds),
        metrics={
            name: values
            for name, values in metrics.items()
            if np.isfinite(values).any()
        },
    )


def _aligned(
    nights: Sequence[NightColumns],
) -> tuple[
    dict[tuple[Track, str], int],
    dict[tuple[Track, str], str],
    list[tuple[Matrix, Matrix]],
]:
    """Return the row and the file of each case and, for each night, rows and the
    entries that belong there.
    """
    rows: dict[tuple[Track, str], int] = {}
    sources: dict[tuple[Track, str], str] = {}
    # for each night, rows and the entries that belong there
    placed: list[tuple[Matrix, Matrix]] = []
    newest: dict[Track, Revision] = {}
    keys, cases, tracks = b"", list[tuple[Track, str]](), set[Track]()
    at = entries = np.zeros(0, np.int64)
    left_out: set[Track] | None = None
    for columns in nights:
        if columns.keys != keys:  # most nights have the cases of the one before
            keys, left_out = columns.keys, None
            read = json.loads(keys)
            cases = [(Track(*key[:4]), key[4]) for key in read]
            sources.update(zip(cases, (key[5] for key in read), strict=True))
            tracks = {track for track, _ in cases}
        toolchain = columns.night.toolchain
        older = {
            track
            for track in tracks
            if track in newest and _is_older(toolchain, newest[track])
        }
        newest.update(dict.fromkeys(tracks - older, toolchain))
        if older != left_out:
            left_out = older
            entries = np.array(
                [
                    number
                    for number, (track, _) in enumerate(cases)
                    if track not in older
                ],
                np.int64,
            )
            at = np.array(
                [rows.setdefault(cases[number], len(rows)) for number in entries],
                np.int64,
            )
        placed.append((at, entries))
    return rows, sources, placed


def _is_older(toolchain: Revision, other: Revision) -> bool:
    old, new = parse_version(toolchain.name), parse_version(other.name)
    if old and new:
        return old < new
    return bool(toolchain.date and other.date and toolchain.date < other.date)


def status_in(state: int) -> tuple[Status, bool]:
    """Return the status that a state stands for, and whether it is flaky."""
    return _STATUSES[(state & STATUS) - 1], bool(state & FLAKY)


def kind_of(toolchain: str) -> str:
    """Return the kind of a toolchain: release, nightly or local."""
    if toolchain.startswith("nightly:"):
        return "nightly"
    if parse_version(toolchain):
        return "release"
    return "local"


def _state(case: CaseResult) -> int:
    if case.flaky or case.change is CaseChangeKind.FLAKY:
        flaky = FLAKY
    else:
        flaky = 0
    return 1 + _STATUSES.index(case.status) + flaky + (COUNTS if case.counts else 0)
