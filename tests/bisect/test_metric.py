from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.bisect.letters import case_named, outcome, release_refs
from triage.bisect.metric import threshold_between
from triage.execution.judge import Metric, MetricThreshold
from triage.execution.runner import ProbeJob
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Compiled, Failed, Measured, Outcome, Probe, Untestable
from triage.model.progress import Progress, Silent

CASE = case_named("case")
PLACES = release_refs(3)


def probe(seconds: float, index: int = 0, letter: str = "P") -> Probe:
    measured = Measured(seconds, seconds, 100 * seconds, {"artifact_bytes": 1000 * seconds})
    return Probe(CASE, PLACES[index].revision, None, outcome(letter), measured, cached=False)


@dataclass
class Repeats:
    """Compiles again, with one number after the other."""

    values: list[float]

    def __call__(self) -> Probe:
        return probe(self.values.pop(0))


@dataclass
class NumberProber:
    """Measures a list of numbers on each revision, or gives the outcome in place of them."""

    values: Mapping[str, list[float]]
    outcome: Outcome = field(default_factory=Compiled)
    jobs: int = 1
    progress: Progress = field(default_factory=Silent)

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in jobs:
            yield replace(probe(self.values[job.ref.revision.name].pop(0)), outcome=self.outcome)


def above(threshold: float, first: Probe, again: Repeats) -> Probe:
    return MetricThreshold(Metric.CPU_SECONDS, threshold).read(first, again)


def test_a_number_near_the_threshold_is_measured_again_and_the_smallest_counts() -> None:
    busy = Repeats([2.2, 1.4])
    assert isinstance(above(2.0, probe(2.4), busy).outcome, Compiled)
    assert not busy.values
    steady = Repeats([2.3, 2.35])
    assert isinstance(above(2.0, probe(2.4), steady).outcome, Failed)


@pytest.mark.parametrize(
    ("metric", "factor"), [(Metric.CPU_SECONDS, 1), (Metric.PEAK_RSS_MB, 100), (Metric.ARTIFACT_BYTES, 1000)]
)
def test_the_threshold_lies_halfway_between_the_best_of_both_ends(metric: Metric, factor: float) -> None:
    prober = NumberProber({"1.0.0": [1.5, 1.0, 1.2], "1.2.0": [4.0, 9.0, 4.4]})
    found = threshold_between(prober, CASE, PLACES[0], PLACES[2], metric)
    assert found.threshold == pytest.approx(2.0 * factor)


def test_ends_with_similar_numbers_cannot_be_bisected() -> None:
    prober = NumberProber({"1.0.0": [1.0, 1.0, 1.0], "1.2.0": [1.1, 1.1, 1.1]})
    with pytest.raises(BadInput, match="too little to bisect"):
        threshold_between(prober, CASE, PLACES[0], PLACES[2], Metric.CPU_SECONDS)


def test_the_numbers_of_ends_of_which_less_is_worse() -> None:
    def end(good: float, bad: float) -> float:
        prober = NumberProber({"1.0.0": [good] * 3, "1.2.0": [bad] * 3})
        found = threshold_between(prober, CASE, PLACES[0], PLACES[2], Metric.ARTIFACT_BYTES)
        assert found.metric.lower_is_worse
        return found.metric.compared(found.threshold)

    assert end(4.0, 1.0) == pytest.approx(2000.0)
    assert end(4.0, 0.0) == pytest.approx(2000.0)
    with pytest.raises(BadInput, match=r"do not differ by a factor of 1\.01"):
        end(1.0, 0.999)


def test_a_metric_that_is_not_there_is_an_error_with_those_that_are() -> None:
    prober = NumberProber({"1.0.0": [1.0] * 3, "1.2.0": [1.0] * 3})
    with pytest.raises(BadInput, match="it has artifact_bytes, cpu_seconds, peak_rss_mb"):
        threshold_between(prober, CASE, PLACES[0], PLACES[2], Metric("instructions"))


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Untestable(Cause.TOOLCHAIN, "does not build"), EnvironmentFailure),
        (Untestable(Cause.FLAG, "unknown flag"), BadInput),
        (outcome("F"), BadInput),
    ],
)
def test_an_end_without_a_number_is_an_error_with_the_reason(outcome: Outcome, error: type[Exception]) -> None:
    prober = NumberProber({"1.0.0": [1.0] * 3, "1.2.0": [1.0] * 3}, outcome)
    why = outcome.reason if isinstance(outcome, Untestable) else "does not compile"
    with pytest.raises(error, match=why):
        threshold_between(prober, CASE, PLACES[0], PLACES[2], Metric.CPU_SECONDS)


def test_a_number_that_is_the_same_each_time_may_grow_by_little_or_from_nothing() -> None:
    def small() -> NumberProber:
        return NumberProber({"1.0.0": [229.376] * 3, "1.2.0": [245.76] * 3})

    found = threshold_between(small(), CASE, PLACES[0], PLACES[2], Metric.ARTIFACT_BYTES)
    assert 229376 < found.threshold < 245760
    with pytest.raises(BadInput, match=r"factor of 1\.25"):
        threshold_between(small(), CASE, PLACES[0], PLACES[2], Metric.CPU_SECONDS)
    nothing = NumberProber({"1.0.0": [0.0] * 3, "1.2.0": [0.016] * 3})
    assert threshold_between(nothing, CASE, PLACES[0], PLACES[2], Metric.ARTIFACT_BYTES).threshold == 8
