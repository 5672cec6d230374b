from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.bisect.letters import case_named, outcome, release_refs
from triage.bisect.metric import threshold_between
from triage.execution.metric import Metric, MetricThreshold
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import (
    Cause,
    Failed,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.progress import Progress
from triage.toolchains.registry import ToolchainRef

CASE = case_named("case")
PLACES = release_refs(3)


def probe(seconds: float, index: int = 0, letter: str = "P") -> Probe:
    measured = Measured(
        seconds, seconds, 100 * seconds, {"artifact_bytes": 1000 * seconds}
    )
    return Probe(
        CASE, PLACES[index].revision, None, outcome(letter), measured, cached=False
    )


@dataclass
class Repeats:
    """Compiles again, with one number after the other."""

    values: list[float]

    def __call__(self) -> Probe:
        return probe(self.values.pop(0))


@dataclass
class NumberProber:
    """Measures a list of numbers on each revision, or gives the outcome in place of
    them.
    """

    values: Mapping[str, list[float]]
    outcome: Outcome = field(default_factory=Passed)
    jobs: int = 1
    progress: Progress = field(default_factory=Progress)

    def probe(self, case: Case, ref: ToolchainRef, *, fresh: bool) -> Probe:
        return replace(
            probe(self.values[ref.revision.name].pop(0)), outcome=self.outcome
        )


def above(threshold: float, first: Probe, again: Repeats) -> Probe:
    return MetricThreshold(Metric.CPU_SECONDS, threshold).judge(first, PLACES[0], again)


def test_a_number_near_the_threshold_is_measured_again_and_the_smallest_counts() -> (
    None
):
    busy = Repeats([2.2, 1.4])
    assert isinstance(above(2.0, probe(2.4), busy).outcome, Passed)
    assert not busy.values
    steady = Repeats([2.3, 2.35])
    assert isinstance(above(2.0, probe(2.4), steady).outcome, Failed)


def test_ends_with_similar_numbers_cannot_be_bisected() -> None:
    prober = NumberProber({"1.0.0": [1.0, 1.0, 1.0], "1.2.0": [1.1, 1.1, 1.1]})
    with pytest.raises(BadInput, match="too little to bisect"):
        threshold_between(prober, CASE, (PLACES[0], PLACES[2]), Metric.CPU_SECONDS)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (NoAnswer(Cause.TOOLCHAIN, "does not build"), EnvironmentFailure),
        (NoAnswer(Cause.FLAG, "unknown flag"), BadInput),
        (outcome("F"), BadInput),
    ],
)
def test_an_end_without_a_number_is_an_error_with_the_reason(
    outcome: Outcome, error: type[Exception]
) -> None:
    prober = NumberProber({"1.0.0": [1.0] * 3, "1.2.0": [1.0] * 3}, outcome)
    why = outcome.reason if isinstance(outcome, NoAnswer) else "does not compile"
    with pytest.raises(error, match=why):
        threshold_between(prober, CASE, (PLACES[0], PLACES[2]), Metric.CPU_SECONDS)
