"""A candidate is measured in turn with both ends; what is on no side is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bisect.letters import case_named, outcome, release_refs
from tests.execution.invented_programs import MAIN, RUNNER, InventedProgram, Machine
from triage.bisect.run_time import RunTimeJudge
from triage.model.outcome import Cause, Compiled, Failed, Measured, Probe, Untestable

CASE = case_named("case")
[REF] = release_refs(1)


def judged(true: float, machine: Machine, *, bad: float = 0.02, ratio: float = 1.41, letter: str = "P") -> Any:
    ends = InventedProgram(machine, 0.01), InventedProgram(machine, bad)
    judge = RunTimeJudge(RUNNER, MAIN, *ends, ratio, 600.0, Path())  # type: ignore[arg-type]
    judge._programs[REF.revision.name] = InventedProgram(machine, true)  # type: ignore[assignment]
    return judge.judge(Probe(CASE, REF.revision, None, outcome(letter), Measured(), cached=True), REF)


@pytest.mark.parametrize("busy", [{}, {"drift": 2.0}, {"outliers": 0.2}], ids=str)
def test_the_side_of_a_candidate_is_never_wrong(busy: dict[str, float]) -> None:
    for seed in range(15):
        assert isinstance(judged(0.01, Machine(seed, **busy)).outcome, Compiled | Untestable)
        assert not isinstance(judged(0.02, Machine(seed, **busy)).outcome, Compiled)
    assert isinstance(judged(0.01, Machine(1)).outcome, Compiled)
    slow = judged(0.02, Machine(1))
    assert isinstance(slow.outcome, Failed)
    assert slow.outcome.failure.signature == "metric:run_seconds"
    assert float(slow.outcome.failure.details["low"]) > 1.41
    assert not slow.cached


def test_a_candidate_at_the_threshold_is_skipped() -> None:
    for seed in range(10):
        read = judged(0.0141, Machine(seed, noise=0.1))
        assert isinstance(read.outcome, Untestable)
        assert read.outcome.cause is Cause.NOISE


def test_ends_that_are_equal_now_give_no_verdict() -> None:
    read = judged(0.01, Machine(1), bad=0.0101)
    assert isinstance(read.outcome, Untestable)
    assert read.outcome.cause is Cause.NOISE


def test_a_failed_compile_stays_what_it_is() -> None:
    assert judged(0.01, Machine(1), letter="F").outcome == outcome("F")
