"""All stored nights side by side: a matrix of cases and nights, the runs of equal states in it, and cases that are flaky."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triage.model.outcome import FAILING, Status
from triage.nights.record import Json, StoredNight, status_in
from triage.nights.store import Columns, NightStore

Matrix = NDArray[Any]
_EXTREMES = {Status.PASSED, Status.FAILED}


@dataclass(frozen=True, slots=True)
class StateRun:
    """Nights in which a case has the same state and signature: `nights[first]` to `nights[last]`. code: as in `state_code`;
    signature: its number in `NightsHistory.signatures`, 0 for none.
    """

    first: int
    last: int
    code: int
    signature: int

    @property
    def failed(self) -> bool:
        return status_in(self.code)[0] in FAILING


@dataclass(frozen=True)
class NightsHistory:
    """Cases x nights. states: as in `state_code`, 0 where a night has no result of a case; failures: numbers in `kinds`.

    kinds: failures as JSON, the first is empty; facts: the newest of each case; metrics: by name, NaN where not measured.
    """

    nights: tuple[StoredNight, ...]
    cases: tuple[str, ...]
    states: Matrix
    failures: Matrix
    kinds: tuple[Json, ...]
    facts: tuple[Json, ...]
    metrics: Mapping[str, Matrix]

    @cached_property
    def signatures(self) -> tuple[str, ...]:
        """The different signatures; the first is empty."""
        return tuple(dict.fromkeys(str(kind.get("signature", "")) for kind in self.kinds))

    @cached_property
    def _signature_of(self) -> Matrix:
        numbers = {signature: number for number, signature in enumerate(self.signatures)}
        return np.array([numbers[str(kind.get("signature", ""))] for kind in self.kinds], np.uint32)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The row of each case."""
        return {case: number for number, case in enumerate(self.cases)}

    @cached_property
    def runs(self) -> tuple[tuple[StateRun, ...], ...]:
        """The runs of equal states of each case, over the nights that have a result of it."""
        return tuple(tuple(self._runs_of(case)) for case in range(len(self.cases)))

    def suite_of(self, case: int) -> str:
        """Return the suite that a case belongs to: its own, or that of the last night that has it."""
        suite = self.facts[case].get("suite")
        return str(suite) if suite else self.nights[self.runs[case][-1].last].suite

    def kind_of(self, case: int, night: int) -> Json:
        """Return the failure of a case in a night."""
        return self.kinds[int(self.failures[case, night])]

    @cached_property
    def last_nights(self) -> Mapping[str, int]:
        """The last complete night of each suite that nights test; the last one where none is complete."""
        last: dict[str, int] = {}
        for number, night in enumerate(self.nights):
            if not night.partial or self.nights[last.get(night.suite, number)].partial:
                last[night.suite] = number
        return last

    def is_current(self, case: int) -> bool:
        """Whether the last result of a case still counts: the last complete night of its suite has it, or a later one."""
        last = self.runs[case][-1].last
        return last >= self.last_nights.get(self.nights[last].suite, 0)

    @cached_property
    def flaky(self) -> Mapping[str, int]:
        """How often each case changed its state although the compiler was the same; cases that never did are left out."""
        found = {}
        for case, runs in enumerate(self.runs):
            changes = sum(status_in(run.code)[1] for run in runs)
            for before, after in pairwise(runs):
                testable = Status.UNTESTABLE not in (status_in(before.code)[0], status_in(after.code)[0])
                changes += testable and self._compilers[before.last] == self._compilers[after.first]
            if changes:
                found[self.cases[case]] = changes
        return found

    def is_unsteady(self, case: str, nights: int = 30) -> bool:
        """Return whether a case passed and failed in turn in the last nights although the compiler was the same.

        One change is not enough: an edit of the recipe or its input makes one.
        """
        if (row := self.numbers.get(case)) is None:
            return False
        statuses = [
            (self._compilers[night], status_in(int(self.states[row, night]))[0])
            for night in np.flatnonzero(self.states[row])
            if night >= len(self.nights) - nights
        ]
        return sum(old[0] == new[0] and {old[1], new[1]} == _EXTREMES for old, new in pairwise(statuses)) > 1

    @cached_property
    def _compilers(self) -> tuple[str, ...]:
        return tuple(night.toolchain.commit or night.toolchain.name for night in self.nights)

    def _runs_of(self, case: int) -> Iterator[StateRun]:
        present = np.flatnonzero(self.states[case])
        states = self.states[case, present]
        signatures = self._signature_of[self.failures[case, present]]
        changes = np.flatnonzero((np.diff(states) != 0) | (np.diff(signatures) != 0)) + 1
        bounds = [0, *changes.tolist(), len(present)]
        for first, end in pairwise(bounds):
            yield StateRun(int(present[first]), int(present[end - 1]), int(states[first]), int(signatures[first]))


def load_history(store: NightStore) -> NightsHistory:
    """Read all nights. Raises what the store raises."""
    nights, columns = [], []
    for night in store.heads():
        if (read := store.columns(night.number)) is not None:
            nights.append(night)
            columns.append(read)
    return _aligned(tuple(nights), columns, store.texts())


def _aligned(nights: tuple[StoredNight, ...], columns: list[Columns], texts: Mapping[int, str]) -> NightsHistory:
    cases = sorted({case for column in columns for case in set(column.cases)}, key=lambda number: texts.get(number, ""))
    rows = np.zeros(max(cases, default=0) + 1, np.int64)
    rows[cases] = np.arange(len(cases))
    shape = len(cases), len(nights)
    states, failures, facts = np.zeros(shape, np.uint8), np.zeros(shape, np.uint32), np.zeros(len(cases), np.uint32)
    metrics: dict[str, Matrix] = {}
    for night, column in enumerate(columns):
        at = rows[np.frombuffer(column.cases, np.uint32)] if len(column.cases) else np.zeros(0, np.int64)
        states[at, night] = column.states
        failures[at, night] = column.failures
        named = np.array(column.facts, np.uint32)
        facts[at[named > 0]] = named[named > 0]
        for name, values in column.metrics.items():
            if name not in metrics:
                metrics[name] = np.full(shape, np.nan, np.float32)
            metrics[name][at, night] = values
    used, kinds = np.unique(np.append(failures.ravel(), 0), return_inverse=True)
    return NightsHistory(
        nights=nights,
        cases=tuple(texts.get(number, f"unknown case {number}") for number in cases),
        states=states,
        failures=kinds[:-1].reshape(shape),
        kinds=tuple(_parsed(texts, number) for number in used.tolist()),
        facts=tuple(_parsed(texts, number) for number in facts.tolist()),
        metrics=metrics,
    )


def _parsed(texts: Mapping[int, str], number: int) -> Json:
    """Return the JSON of a text; empty for none and for a damaged one, which must not hide the others."""
    try:
        value = json.loads(texts[number]) if number else {}
    except (KeyError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
