"""The part of a night that a history of all nights needs: lines of JSON, of which the
later ones are read only when they are needed.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from pydantic import TypeAdapter

from triage.investigate.result import CaseChangeKind, CaseResult, ClusterKey
from triage.model.outcome import Failure, Status
from triage.model.revision import ToolchainKind
from triage.nightly.result import Night
from triage.nightly.verdict import BackendVerdict

METRICS = ("cpu_seconds", "run_seconds", "dispatches", "artifact_bytes")
"""Those that trends show."""
STATUSES = tuple(Status)
_UNCOMPARED = (CaseChangeKind.UNTESTABLE, CaseChangeKind.NEW_UNTESTED)


@dataclass(frozen=True, order=True, slots=True)
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
class NightSummary:
    """What a list of nights shows."""

    night: Night
    """Without the cases that only passed."""
    suites: list[str]
    statuses: dict[Status, int]
    """How many cases have each status."""
    verdicts: list[BackendVerdict]
    """What the night says of each backend."""
    failures: list[Failure]
    """The different failures of the night."""


@dataclass(frozen=True)
class StoredNight:
    """A night of a store."""

    number: int
    summary: NightSummary
    keys: bytes
    """JSON of the track, the name and the recipe of each case."""
    _results: bytes
    _metrics: bytes

    @cached_property
    def results(self) -> Sequence[Sequence[Any]]:
        """For each case: index of its status in STATUSES; whether it is flaky; the
        number of its failure from 1, 0 for none; the beginning of the hash of its
        input; whether its failure is new; whether it was compared.
        """
        rows: list[list[Any]] = json.loads(self._results)
        return rows

    @cached_property
    def metrics(self) -> Mapping[str, Sequence[float | None]]:
        """A number for each case, by metric; only the metrics that were measured."""
        columns: dict[str, list[float | None]] = json.loads(self._metrics)
        return columns

    @classmethod
    def of(cls, number: int, night: Night) -> StoredNight:
        # by signature and headline
        numbers: dict[tuple[str, str], int] = {}
        failures: list[Failure] = []
        rows = []
        for case in night.cases:
            place = 0
            if case.failure:
                text = case.failure.signature, case.failure.headline
                if text not in numbers:
                    failures.append(case.failure)
                place = numbers.setdefault(text, len(failures))
            rows.append(_result_of(case, place))
        measured = [case.numbers for case in night.cases]
        columns = {
            metric: [values.get(metric) for values in measured] for metric in METRICS
        }
        keys = [_key_of(case, night.kind) for case in night.cases]
        summary = NightSummary(
            replace(night, cases=[case for case in night.cases if _is_listed(case)]),
            sorted({case.suite for case in night.cases}),
            dict(Counter(case.status for case in night.cases)),
            night.verdict,
            failures,
        )
        known = {name: column for name, column in columns.items() if any(column)}
        lines = (json.dumps(line).encode() for line in (keys, rows, known))
        return cls(number, summary, *lines)

    @classmethod
    def read(cls, number: int, content: bytes) -> StoredNight:
        """Read what `content` returned. ValueError or zlib.error for a damaged file."""
        head, *lines = zlib.decompress(content).split(b"\n", 3)
        return cls(number, _summary().validate_json(head), *lines)

    def content(self) -> bytes:
        head = _summary().dump_json(self.summary, by_alias=True, exclude_defaults=True)
        return zlib.compress(
            b"\n".join((head, self.keys, self._results, self._metrics))
        )


@cache
def _summary() -> TypeAdapter[NightSummary]:
    return TypeAdapter(NightSummary)


def _key_of(case: CaseResult, kind: ToolchainKind) -> tuple[str, ...]:
    track = track_of(case, kind)
    names = (track.compiler, track.suite, track.target, track.kind)
    return (*names, case.case, case.source)


def _result_of(case: CaseResult, failure: int) -> tuple[object, ...]:
    is_flaky = case.flaky or case.change is CaseChangeKind.FLAKY
    return (
        STATUSES.index(case.status),
        is_flaky,
        failure,
        case.input[:8],
        case.is_new_failure,
        case.change not in _UNCOMPARED,
    )


def _is_listed(case: CaseResult) -> bool:
    """Return whether a list of nights needs a case, because it did not only pass."""
    kinds = (CaseChangeKind.FIXED, CaseChangeKind.FLAKY)
    is_changed = case.is_new_failure or case.change in kinds
    is_xpass = case.status is Status.XPASS
    return bool(is_changed or is_xpass or case.bisections or case.issue)
