"""A night as arrays: the part of it that a history of all nights needs, which is read in a fraction of the time."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from packaging.version import InvalidVersion, Version
from pydantic import TypeAdapter

from triage.model.errors import BadInput
from triage.model.outcome import Failure, Status
from triage.nightly.result import CaseChangeKind, CaseResult, Night, night_bytes, parse_night

Matrix = NDArray[Any]
METRICS = ("cpu_seconds", "run_seconds", "dispatches", "artifact_bytes")  # those that trends show
STATUS, FLAKY, COUNTS = 0x3F, 0x40, 0x80  # parts of a code
_STATUSES = tuple(Status)
_FAILURES: TypeAdapter[list[Failure]] = TypeAdapter(list[Failure])


@dataclass(frozen=True, slots=True)
class NightColumns:
    """One night as arrays of equal length."""

    night: Night
    """Without the cases that only passed."""
    keys: str
    """A line of JSON for each case: compiler, suite, target, kind of the toolchain, name."""
    states: Matrix
    """Codes, see `status_in`."""
    failures: Matrix
    """Numbers in `kinds` from 1; 0 for none."""
    kinds: Sequence[Failure]
    metrics: Mapping[str, Matrix]
    """By name; NaN where not measured."""

    @classmethod
    def of(cls, night: Night) -> NightColumns:
        """Return the columns of a night."""
        kinds: dict[str, int] = {}
        failures: list[Failure] = []
        kind = kind_of(night.toolchain.name)
        keys, states, numbers = [], [], []
        for case in night.cases:
            target = "" if case.target is None else " ".join(filter(None, (case.target.backend, case.target.chip)))
            keys.append(json.dumps([case.compiler, case.suite, target, kind, case.case]))
            states.append(_code(case))
            number = 0
            if case.failure:
                text = f"{case.failure.signature}\n{case.failure.headline}"
                number = kinds.setdefault(text, len(kinds) + 1)
                if number > len(failures):
                    failures.append(case.failure)
            numbers.append(number)
        metrics = {name: np.array([case.metrics.get(name, np.nan) for case in night.cases], np.float32) for name in METRICS}
        listed = [case for case in night.cases if case.counts or case.bisections or case.issue]
        head = replace(night, cases=listed)
        return cls(head, "\n".join(keys), np.array(states, np.uint8), np.array(numbers, np.uint32), failures, metrics)

    @classmethod
    def read(cls, content: bytes) -> NightColumns | None:
        """Return what `written` wrote; None for anything else."""
        try:
            with np.load(BytesIO(content), allow_pickle=False) as file:
                night = parse_night(file["night"].tobytes(), "columns of a night")
                kinds = _FAILURES.validate_json(file["kinds"].tobytes())
                metrics = {name: file[name] for name in METRICS}
                return cls(night, file["keys"].tobytes().decode(), file["states"], file["failures"], kinds, metrics)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, BadInput):
            return None

    def written(self) -> bytes:
        """Return the columns as a file."""
        texts = {
            "night": night_bytes(self.night),
            "keys": self.keys.encode("utf-8", "replace"),
            "kinds": _FAILURES.dump_json(list(self.kinds), by_alias=True),
        }
        content = BytesIO()
        arrays: Any = {name: np.frombuffer(text, np.uint8) for name, text in texts.items()}
        np.savez_compressed(content, **arrays | self.metrics, states=self.states, failures=self.failures)
        return content.getvalue()


def status_in(code: int) -> tuple[Status, bool]:
    """Return the status that a code stands for, and whether it is flaky."""
    return _STATUSES[(code & STATUS) - 1], bool(code & FLAKY)


@cache
def version_of(name: str) -> Version | None:
    """Return the version that a toolchain's name is, if it is one."""
    try:
        return Version(name)
    except InvalidVersion:
        return None


def kind_of(toolchain: str) -> str:
    """Return the kind of a toolchain: release, nightly or local."""
    if toolchain.startswith("nightly:"):
        return "nightly"
    return "release" if version_of(toolchain) else "local"


def _code(case: CaseResult) -> int:
    flaky = FLAKY if case.flaky or case.change is CaseChangeKind.FLAKY else 0
    return 1 + _STATUSES.index(case.status) + flaky + (COUNTS if case.counts else 0)
