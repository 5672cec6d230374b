"""What is judged by a number is never on the wrong side, however busy the machine is;
what is on no side is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.bisect.letters import HistoryEngine, case_named, index_of, release_refs
from tests.execution.invented_programs import InventedProgram, Machine
from triage.bisect.line import BisectRequest
from triage.bisect.plan import measuring
from triage.execution.in_turn import LEAST
from triage.execution.number_judge import Metric, NumberJudge, engine_with_judge
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import (
    Failed,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.toolchains.registry import ToolchainRef

CASE = case_named("case")
OLD, MIDDLE, NEW = release_refs(3)


def passed(ref: ToolchainRef, **metrics: float) -> Probe:
    measured = Measured(metrics=metrics)
    return Probe(CASE, ref.revision, None, Passed(), measured, cached=True)


def run_time(true: float, machine: Machine) -> Probe:
    """Judge a program that takes so long, and 0.01 on the good toolchain."""

    def measure(_case: Case, ref: ToolchainRef) -> Any:
        return InventedProgram(machine, 0.01 if ref == OLD else true).sample

    judge = NumberJudge(Metric("run_seconds"), OLD, 1.41, measure, 600.0)
    return judge.judge(passed(MIDDLE), MIDDLE)


@pytest.mark.parametrize("busy", [{}, {"drift": 2.0}, {"outliers": 0.2}], ids=str)
def test_the_side_of_a_run_time_is_never_wrong(busy: dict[str, float]) -> None:
    for seed in range(15):
        fast, slow = (run_time(true, Machine(seed, **busy)) for true in (0.01, 0.02))
        assert isinstance(fast.outcome, Passed | NoAnswer)
        assert not isinstance(slow.outcome, Passed)
    assert isinstance(run_time(0.01, Machine(1)).outcome, Passed)
    assert isinstance(run_time(0.0141, Machine(1)).outcome, NoAnswer)
    slow = run_time(0.02, Machine(1))
    assert isinstance(slow.outcome, Failed)
    assert slow.outcome.failure.signature == "metric:run_seconds"
    assert float(slow.outcome.failure.details["low"]) > 1.41
    assert not slow.cached


@dataclass
class InventedCompiles:
    """Stands where an `Engine` stands: compiles whose numbers are invented. made:
    releases as they were compiled.
    """

    true: tuple[float, ...]
    machine: Machine | None = None
    made: list[str] = field(default_factory=list)
    judge: Any = None

    def with_judge(self, judge: NumberJudge) -> InventedCompiles:
        return replace(self, judge=judge)

    def probe(self, job: ProbeJob) -> Probe:
        value = self.true[index_of(job.ref.revision)]
        self.made.append(job.ref.revision.name)
        if self.machine:
            value = self.machine.seconds(value)
        measured = Measured(cpu_seconds=value, metrics={"spills": value})
        return replace(passed(job.ref), measured=measured, cached=False)

    def judged(self, metric: str) -> Outcome:
        """Judge the revision in the middle."""
        number = Metric(metric)
        with engine_with_judge(self, CASE, (OLD, NEW), number, 600.0) as engine:  # type: ignore[arg-type]
            self.made.clear()
            middle = passed(MIDDLE, spills=self.true[1])
            outcome: Outcome = engine.judge.judge(middle, MIDDLE).outcome  # type: ignore[union-attr]
            return outcome


def test_a_compile_near_the_limit_is_repeated_in_turn_with_the_good_one() -> None:
    near = InventedCompiles((1.0, 1.5, 1.5), Machine(1))
    assert isinstance(near.judged("cpu_seconds"), Failed)
    assert len(near.made) >= 2 * LEAST
    far = InventedCompiles((1.0, 30.0, 25.0), Machine(1))
    assert isinstance(far.judged("cpu_seconds"), Failed)
    assert far.made == ["1.0.0", "1.1.0"]


@pytest.mark.parametrize(
    ("true", "fails"),
    [
        ((4.0, 5.0, 16.0), False),
        ((0.0, 0.0, 16.0), False),
        ((0.0, 1.0, 16.0), True),
    ],
)
def test_a_number_is_bad_beyond_halfway(true: tuple[float, ...], fails: bool) -> None:
    assert isinstance(InventedCompiles(true).judged("spills"), Failed) is fails


@pytest.mark.parametrize(("metric", "new"), [("spills", 1.005), ("cpu_seconds", 1.0)])
def test_ends_with_similar_numbers_cannot_be_bisected(metric: str, new: float) -> None:
    with pytest.raises(BadInput, match="differ too little"):
        InventedCompiles((1.0, 1.0, new)).judged(metric)


REQUEST = BisectRequest(HistoryEngine("PF"), CASE)  # type: ignore[arg-type]


def test_a_limit_is_a_threshold_of_the_case() -> None:
    with measuring(REQUEST, "1.0.0", "1.1.0", "artifact_bytes", 9.0, 1.0) as measured:
        assert measured.case.thresholds == (("artifact_bytes", 9.0),)
    with measuring(REQUEST, None, None, None, None, 1.0) as measured:
        assert measured is REQUEST


@pytest.mark.parametrize(
    ("after", "metric"), [(None, "artifact_bytes"), ("1.1.0", "run_seconds")]
)
def test_without_good_and_bad_or_for_a_time_a_limit_says_nothing(
    after: str | None, metric: str
) -> None:
    limited = measuring(REQUEST, "1.0.0", after, metric, 9.0, 1.0)
    with pytest.raises(BadInput, match=r"--good|--above"), limited:
        pass
