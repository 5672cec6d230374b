"""What is stored of a night: the state of every case, its failure, its metrics, and the rest of the report as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from triage.model.outcome import Status
from triage.model.revision import Revision

Json = Mapping[str, Any]
_STATUSES = tuple(Status)
_FLAKY = 0x40


@dataclass(frozen=True, slots=True)
class StoredCase:
    """A case in one night. failure: as JSON, None where there is none.

    facts: the case itself (recipe, suite, backend, ...), which rarely change from night to night.
    """

    case: str
    status: Status
    flaky: bool = False
    failure: Json | None = None
    reason: str | None = None
    facts: Json = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredNight:
    """A night. number: in the store, 0 before it is stored; at: when it began, ISO 8601 in UTC; suite: what it tested.

    counts: number of cases by status; report: the JSON of the night without the cases that only passed; files: texts by
    their path in the report.
    """

    at: str
    suite: str
    toolchain: Revision
    baseline: Revision
    partial: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    report: Json = field(default_factory=dict)
    results: tuple[StoredCase, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    number: int = 0


def state_code(result: StoredCase) -> int:
    """Return a status as a small number; 0 stands for a case without a result."""
    return 1 + _STATUSES.index(result.status) + (_FLAKY if result.flaky else 0)


def status_in(code: int) -> tuple[Status, bool]:
    """Return the status that a number from `state_code` stands for, and whether it is flaky."""
    return _STATUSES[(code & ~_FLAKY) - 1], bool(code & _FLAKY)
