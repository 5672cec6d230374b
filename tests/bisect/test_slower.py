"""A candidate is measured in turn with both ends; what is on no side is skipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bisect.letters import case_named, outcome, release_refs
from tests.execution.invented_programs import MAIN, RUNNER, InventedProgram, Machine
from triage.bisect.metric import MetricChoice, TimeJudge, compile_time_judge
from triage.bisect.metric_ratio import RatioJudge
from triage.execution.in_turn import LEAST, Sampler
from triage.execution.metric import Metric
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Measured, NoAnswer, Passed, Probe
from triage.toolchains.registry import ToolchainRef

CASE = case_named("case")
FIRST, LAST, REF = release_refs(3)


def timed(machine: Machine, seconds: float) -> Sampler:
    return partial(InventedProgram(machine, seconds).sample, RUNNER, MAIN)


def judged(
    true: float,
    machine: Machine,
    *,
    bad: float = 0.02,
    ratio: float = 1.41,
    letter: str = "P",
) -> Any:
    good, worse, new = (timed(machine, seconds) for seconds in (0.01, bad, true))
    ready = iter([good, worse, new])
    judge = TimeJudge(
        Metric.RUN_SECONDS,
        CASE,
        (FIRST, LAST),
        lambda _case, _ref: next(ready),
        ratio,
        600.0,
    )
    return judge.judge(
        Probe(CASE, REF.revision, None, outcome(letter), Measured(), cached=True), REF
    )


@pytest.mark.parametrize("busy", [{}, {"drift": 2.0}, {"outliers": 0.2}], ids=str)
def test_the_side_of_a_candidate_is_never_wrong(busy: dict[str, float]) -> None:
    for seed in range(15):
        assert isinstance(
            judged(0.01, Machine(seed, **busy)).outcome, Passed | NoAnswer
        )
        assert not isinstance(judged(0.02, Machine(seed, **busy)).outcome, Passed)
    assert isinstance(judged(0.01, Machine(1)).outcome, Passed)
    slow = judged(0.02, Machine(1))
    assert isinstance(slow.outcome, Failed)
    assert slow.outcome.failure.signature == "metric:run_seconds"
    assert float(slow.outcome.failure.details["low"]) > 1.41
    assert not slow.cached


@dataclass
class InventedCompiles:
    """Stands where an `Engine` stands: compiles whose CPU times are invented. made:
    releases as they were compiled.
    """

    machine: Machine
    true: dict[str, float]
    made: list[str] = field(default_factory=list)
    letter: str = "P"
    progress: Any = RUNNER.progress

    @property
    def registry(self) -> Any:
        return SimpleNamespace(obtain=lambda ref: ref)

    def trial(
        self, case: Case, ref: ToolchainRef, _naming: object, *, here: bool
    ) -> Probe:
        assert here
        return self.probe(case, ref, fresh=True)

    def probe(self, case: Case, ref: ToolchainRef, *, fresh: bool) -> Probe:
        assert fresh
        self.made.append(ref.revision.name)
        measured = Measured(
            cpu_seconds=self.machine.seconds(self.true[ref.revision.name])
        )
        return Probe(
            case, ref.revision, None, outcome(self.letter), measured, cached=False
        )


OLD, MIDDLE, NEW = release_refs(3)


def compiled(engine: InventedCompiles) -> Any:
    judge = compile_time_judge(engine, CASE, (OLD, NEW), threshold=None, budget=600.0)  # type: ignore[arg-type]
    engine.made.clear()
    return judge.judge(
        Probe(CASE, MIDDLE.revision, None, Passed(), Measured(), cached=True), MIDDLE
    )


@pytest.mark.parametrize("busy", [{}, {"drift": 1.0}, {"outliers": 0.1}], ids=str)
def test_a_compile_near_the_threshold_is_repeated_in_turn_with_both_ends(
    busy: dict[str, float],
) -> None:
    for seed in range(5):
        for middle, wrong in ((1.0, Failed), (1.5, Passed)):
            engine = InventedCompiles(
                Machine(seed, **busy), {"1.0.0": 1.0, "1.1.0": middle, "1.2.0": 1.5}
            )
            try:
                read = compiled(engine)
            except BadInput:
                assert busy  # the machine is too busy to tell the ends apart
                continue
            assert not isinstance(read.outcome, wrong)
            assert set(engine.made) == {"1.0.0", "1.1.0", "1.2.0"}
    quiet = InventedCompiles(Machine(1), {"1.0.0": 1.0, "1.1.0": 1.5, "1.2.0": 1.5})
    assert isinstance(compiled(quiet).outcome, Failed)


@pytest.mark.parametrize(
    ("times", "wanted"), [((1.0, 1.0), Passed), ((1.0, 1.6), Failed)]
)
def test_a_smaller_program_is_measured_until_its_side_is_clear(
    times: tuple[float, float], wanted: type
) -> None:
    """Both toolchains compile it in turn, 8 times and once to warm up."""
    engine: Any = InventedCompiles(
        Machine(1), dict(zip(("1.0.0", "1.2.0"), times, strict=True))
    )
    choice = MetricChoice(Metric.CPU_SECONDS, 600.0)
    judge = RatioJudge(engine, choice, (OLD, NEW), 1.3)
    measured = Measured(cpu_seconds=times[1])
    candidate = Probe(CASE, NEW.revision, None, Passed(), measured, cached=False)
    assert isinstance(judge.judge(candidate, NEW).outcome, wanted)
    assert len(engine.made) <= 1 + 2 * (LEAST + 1)
