"""Verdicts on invented times: none from noise, drift or outliers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.bisect.letters import HistoryEngine, case_named
from tests.execution.invented_programs import InventedProgram, Machine
from triage.execution import benchmark as benchmarks
from triage.execution.benchmark import Benchmark, Series
from triage.execution.in_turn import Pace
from triage.execution.task import ProbeJob
from triage.model.outcome import Cause, NoAnswer
from triage.toolchains.home import Progress

ROWS = [
    ProbeJob(case_named("case"), ref) for ref in HistoryEngine("PPP").releases("iree")
]
each_busy_machine = pytest.mark.parametrize(
    "busy",
    [
        {"noise": 0.02},
        {"noise": 0.1},
        {"drift": 0.5},
        {"drift": 3.0},
        {"outliers": 0.2},
        {"outliers": 0.4, "drift": 0.3},
    ],
    ids=str,
)


def measured(
    monkeypatch: pytest.MonkeyPatch, *programs: InventedProgram
) -> list[Series]:
    """Compare the program of each release with the first one."""
    by_release = {
        row.ref: program for row, program in zip(ROWS, programs, strict=False)
    }
    monkeypatch.setattr(
        benchmarks,
        "compile_functions",
        lambda _engine, _case, ref, *_: [by_release[ref]],
    )
    engine: Any = SimpleNamespace(progress=Progress())
    benchmark = Benchmark(ROWS[: len(programs)])
    return benchmark.measure(engine, budget=600.0).series


@each_busy_machine
def test_equal_programs_are_never_slower_or_faster(
    monkeypatch: pytest.MonkeyPatch, busy: dict[str, float]
) -> None:
    for seed in range(40):
        machine = Machine(seed, **busy)
        programs = InventedProgram(machine), InventedProgram(machine)
        assert measured(monkeypatch, *programs)[1].verdict in (Pace.SAME, Pace.NOISY)


@each_busy_machine
def test_twice_as_slow_is_slower_on_a_busy_machine_too(
    monkeypatch: pytest.MonkeyPatch, busy: dict[str, float]
) -> None:
    for seed in range(5):
        machine = Machine(seed, **busy)
        programs = InventedProgram(machine, 0.01), InventedProgram(machine, 0.02)
        first, second = measured(monkeypatch, *programs)
        assert (first.verdict, second.verdict) == (None, Pace.SLOWER)
        assert second.low < 2 < second.high * 1.05


class Broken(InventedProgram):
    def sample(self) -> float | NoAnswer:
        return NoAnswer(Cause.NOISE, "it ran out of memory")


def test_a_program_that_stops_running_has_a_reason_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(1)
    programs = InventedProgram(machine), Broken(machine), InventedProgram(machine)
    series = measured(monkeypatch, *programs)
    assert [row.reason for row in series] == [None, "it ran out of memory", None]
    assert [row.verdict for row in series] == [None, None, Pace.SAME]
