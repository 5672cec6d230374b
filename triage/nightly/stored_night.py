"""The part of a night that lists and the history of all nights need."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from triage.investigate.result import CaseChangeKind, CaseResult, ClusterKey
from triage.model.json_form import UNSTORED
from triage.model.outcome import Failure, Status
from triage.model.revision import ToolchainKind
from triage.nightly.result import Night
from triage.nightly.verdict import BackendVerdict

_PLAIN = (CaseChangeKind.PASSING, CaseChangeKind.FAILING, CaseChangeKind.UNTESTABLE)


@dataclass(frozen=True)
class ChartedMetric:
    """A metric that pages draw as a line."""

    name: str
    title: str
    unit: str
    least_ratio: float
    """The smallest change that is marked as a step."""


METRICS = (
    ChartedMetric("run_seconds", "Run time", "s", 1.05),
    ChartedMetric("cpu_seconds", "Compile time (CPU)", "s", 1.1),
    ChartedMetric("dispatches", "Dispatches", "", 1.01),
    ChartedMetric("artifact_bytes", "Size", "bytes", 1.05),
)


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
class StoredNight:
    """A night of a store."""

    number: int
    night: Night
    """Without the cases that passed, failed as before or could not be tested."""
    verdicts: list[BackendVerdict]
    """What the night says of each backend."""
    failures: list[Failure]
    """The different failures of the night."""
    rows: bytes = field(default=b"", metadata=UNSTORED)
    """JSON of `results`, which is parsed only where it is needed."""

    def results(self) -> Iterator[tuple[Track, dict[str, Any], dict[str, Any]]]:
        """Yield for each track a row for each case, and the numbers of all by metric.

        A row has the status, the change, the index of the failure if there is one, the
        beginning of the hash of the input, and the recipe.
        """
        for track, rows, numbers in json.loads(self.rows):
            yield Track(*track), rows, numbers

    @property
    def statuses(self) -> Counter[Status]:
        """How many cases have each status."""
        cases = (row for _, rows, _ in self.results() for row in rows.values())
        return Counter(Status(row[0]) for row in cases)

    @classmethod
    def of(cls, number: int, night: Night) -> StoredNight:
        failures: dict[tuple[str, str], Failure] = {}
        tracks: dict[Track, tuple[dict[str, Any], dict[str, Any]]] = {}
        for case in night.cases:
            place = None
            if case.failure:
                text = case.failure.signature, case.failure.headline
                failures.setdefault(text, case.failure)
                place = [*failures].index(text)
            rows, numbers = tracks.setdefault(track_of(case, night.kind), ({}, {}))
            content = case.input[:8]
            rows[case.case] = [case.status, case.change, place, content, case.source]
            for metric in METRICS:
                value = case.numbers.get(metric.name)
                numbers.setdefault(metric.name, []).append(value)
        results = [(astuple(track), *values) for track, values in tracks.items()]
        listed = [case for case in night.cases if case.change not in _PLAIN]
        return cls(
            number,
            replace(night, cases=listed),
            night.verdict,
            [*failures.values()],
            json.dumps(results).encode(),
        )

    @classmethod
    def read(cls, content: bytes) -> StoredNight:
        """Read what `content` returned. ValueError for something else."""
        head, _, rows = content.partition(b"\n")
        return replace(_adapter().validate_json(head), rows=rows)

    def content(self) -> bytes:
        head = _adapter().dump_json(self, by_alias=True, exclude_defaults=True)
        return head + b"\n" + self.rows


@cache
def _adapter() -> TypeAdapter[StoredNight]:
    return TypeAdapter(StoredNight)
