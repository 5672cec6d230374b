"""Verdicts on invented times: none from noise, drift or outliers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bisect.letters import case_named, release_refs
from tests.execution.invented_programs import RUNNER, InventedProgram, Machine
from triage.execution import benchmark as benchmarks
from triage.execution.benchmark import Benchmark
from triage.execution.in_turn import Pace
from triage.execution.task import ProbeJob
from triage.model.outcome import Cause, NoAnswer

CASE = case_named("case")
ROWS = [ProbeJob(CASE, ref) for ref in release_refs(3)]
BUSY = [
    {"noise": 0.02},
    {"noise": 0.1},
    {"drift": 0.5},
    {"drift": 3.0},
    {"outliers": 0.2},
    {"outliers": 0.4, "drift": 0.3},
]


def measured(
    monkeypatch: pytest.MonkeyPatch, *programs: Any, baseline: int = 0
) -> Benchmark:
    rows = ROWS[: len(programs)]
    by_release = {
        row.ref.revision.name: program
        for row, program in zip(rows, programs, strict=True)
    }
    monkeypatch.setattr(
        benchmarks,
        "function_programs",
        lambda _engine, _case, ref, *_: [by_release[ref.revision.name]],
    )
    return Benchmark(rows, rows[baseline]).measure(RUNNER, budget=600.0)


def paces(result: Benchmark) -> list[Pace | None]:
    return [row.verdict for row in result.series]


@pytest.mark.parametrize("busy", BUSY, ids=str)
def test_equal_programs_are_never_slower_or_faster(
    monkeypatch: pytest.MonkeyPatch, busy: dict[str, float]
) -> None:
    for seed in range(40):
        machine = Machine(seed, **busy)
        result = measured(
            monkeypatch, InventedProgram(machine, 0.01), InventedProgram(machine, 0.01)
        )
        assert paces(result)[1] in (Pace.SAME, Pace.NOISY)


@pytest.mark.parametrize("busy", BUSY, ids=str)
def test_twice_as_slow_is_slower_on_a_busy_machine_too(
    monkeypatch: pytest.MonkeyPatch, busy: dict[str, float]
) -> None:
    for seed in range(5):
        machine = Machine(seed, **busy)
        result = measured(
            monkeypatch, InventedProgram(machine, 0.01), InventedProgram(machine, 0.02)
        )
        assert paces(result) == [None, Pace.SLOWER]
        assert result.series[1].low < 2 < result.series[1].high * 1.05


def test_a_program_that_stops_running_has_a_reason_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(InventedProgram):
        def sample(self) -> float | NoAnswer:
            return NoAnswer(Cause.NOISE, "it ran out of memory")

    machine = Machine(1)
    result = measured(
        monkeypatch,
        InventedProgram(machine, 0.01),
        Broken(machine, 0.01),
        InventedProgram(machine, 0.01),
    )
    assert [row.reason for row in result.series] == [None, "it ran out of memory", None]
    assert paces(result) == [None, None, Pace.SAME]
