"""What is judged by a number is never on the wrong side, however busy the machine is;
what is on no side is skipped.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.bisect.letters import HistoryEngine, case_named, index_of
from tests.execution.invented_programs import Machine
from triage.bisect.line import BisectRequest
from triage.bisect.releases import metric_request
from triage.execution.in_turn import MIN_SAMPLES
from triage.execution.number_judge import Metric, NumberJudge, engine_with_judge
from triage.execution.task import ProbeJob
from triage.model.errors import BadInput
from triage.model.outcome import Measured, Outcome, Passed, Probe

CASE = case_named("case")
RELEASES = HistoryEngine("PPP").releases("iree")
OLD, MIDDLE, NEW = RELEASES


def judged(judge: Any) -> Probe:
    """Judge the release in the middle, whose probe is cached."""
    probe = Probe(CASE, MIDDLE.revision, None, Passed(), cached=True)
    return judge.judge(probe, MIDDLE)


def run_time(true: float, machine: Machine) -> Any:
    """Judge a program that takes so long, and 0.01 on the good toolchain."""

    def measure(_: object, ref: object) -> Any:
        return lambda: machine.seconds(0.01 if ref == OLD else true)

    return judged(NumberJudge(Metric("run_seconds"), OLD, 1.41, measure, 600.0))


@pytest.mark.parametrize("busy", [{}, {"drift": 2.0}, {"outliers": 0.2}], ids=str)
def test_the_side_of_a_run_time_is_never_wrong(busy: dict[str, float]) -> None:
    for seed in range(15):
        fast, slow = (run_time(true, Machine(seed, **busy)) for true in (0.01, 0.02))
        assert fast.outcome.plain_status != "failed"
        assert slow.outcome.plain_status != "passed"
    for true, status in ((0.01, "passed"), (0.0141, "untestable")):
        assert run_time(true, Machine(1)).outcome.plain_status == status
    slow = run_time(0.02, Machine(1))
    assert slow.outcome.failure.signature == "metric:run_seconds"
    assert float(slow.outcome.failure.details["low"]) > 1.41
    assert not slow.cached


def compiled(
    metric: str, *numbers: float, machine: Machine | None = None
) -> tuple[Outcome, list[str]]:
    """Judge the middle one of three releases with these numbers. Return its outcome,
    and the releases that were compiled for that.
    """

    def measure(job: ProbeJob) -> Measured:
        value = numbers[index_of(job.ref.revision)]
        seconds = machine.seconds(value) if machine else value
        return Measured(cpu_seconds=seconds, metrics={"spills": value})

    engine: Any = HistoryEngine("PPP")
    engine.measure, engine.with_judge = measure, lambda judge: judge
    with engine_with_judge(engine, CASE, (OLD, NEW), Metric(metric), 600.0) as judge:
        engine.asked.clear()
        outcome = judged(judge).outcome  # type: ignore[arg-type]
        return outcome, [job.ref.revision.name for job in engine.asked]


def test_a_compile_near_the_limit_is_repeated_in_turn_with_the_good_one() -> None:
    near, names = compiled("cpu_seconds", 1.0, 1.5, 1.5, machine=Machine(1))
    assert near.plain_status == "failed"
    assert len(names) >= 2 * MIN_SAMPLES
    far, names = compiled("cpu_seconds", 1.0, 30.0, 25.0, machine=Machine(1))
    assert far.plain_status == "failed"
    assert names == ["1.0.0", "1.1.0"]


@pytest.mark.parametrize(
    ("numbers", "fails"),
    [
        ((4.0, 5.0, 16.0), False),
        ((0.0, 0.0, 16.0), False),
        ((0.0, 1.0, 16.0), True),
    ],
)
def test_a_number_is_bad_beyond_halfway(numbers: list[float], fails: bool) -> None:
    outcome, _ = compiled("spills", *numbers)
    assert (outcome.plain_status == "failed") is fails


@pytest.mark.parametrize(("metric", "new"), [("spills", 1.005), ("cpu_seconds", 1.0)])
def test_ends_with_similar_numbers_cannot_be_bisected(metric: str, new: float) -> None:
    with pytest.raises(BadInput, match="differ too little"):
        compiled(metric, 1.0, 1.0, new)


REQUEST = BisectRequest(HistoryEngine("PF"), CASE)  # type: ignore[arg-type]


def test_a_limit_is_a_threshold_of_the_case() -> None:
    with metric_request(
        REQUEST, "1.0.0", "1.1.0", "artifact_bytes", 9.0, 1.0
    ) as measured:
        assert measured.case.thresholds == (("artifact_bytes", 9.0),)
