from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bisect.history_of import case_named, outcome, places
from triage.bisect.metric import reading_between
from triage.execution.metrics import Metric, Reading, value_of
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Compiled, Failed, Measured, Outcome, Probe, Untestable

CASE = case_named("case")
PLACES = places(3)


def probe(seconds: float, index: int = 0, letter: str = "P") -> Probe:
    measured = Measured(seconds, seconds, 100 * seconds, {"artifact_bytes": 1000 * seconds})
    return Probe(CASE, PLACES[index].revision, None, outcome(letter), measured, cached=False)


class Repeats:
    """A prober that gives one number after the other."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def probe(self, case: object, toolchain: object, *, fresh: bool) -> Probe:
        assert fresh
        return probe(self.values.pop(0))


class Bench:
    def __init__(self, values: dict[str, list[float]]) -> None:
        self.values = values

    def probe(self, case: object, place, *, fresh: bool) -> Probe:
        return probe(self.values[place.revision.name].pop(0))


def test_a_number_above_the_threshold_reads_as_a_failure_of_its_own() -> None:
    read = Reading(Metric.CPU_SECONDS, 2.0)(Repeats(), None, probe(5.0))
    assert isinstance(read.outcome, Failed)
    assert read.outcome.failure.signature == "metric:cpu_seconds"
    assert isinstance(Reading(Metric.CPU_SECONDS, 2.0)(Repeats(), None, probe(0.5)).outcome, Compiled)


def test_a_number_near_the_threshold_is_measured_again_and_the_smallest_counts() -> None:
    busy = Repeats(2.2, 1.4)
    assert isinstance(Reading(Metric.CPU_SECONDS, 2.0)(busy, None, probe(2.4)).outcome, Compiled)
    assert not busy.values
    steady = Repeats(2.3, 2.35)
    assert isinstance(Reading(Metric.CPU_SECONDS, 2.0)(steady, None, probe(2.4)).outcome, Failed)


def test_a_real_failure_stays_what_it_is() -> None:
    failed = probe(9.0, letter="F")
    assert Reading(Metric.CPU_SECONDS, 2.0)(Repeats(), None, failed) == failed


@pytest.mark.parametrize(
    ("metric", "factor"), [(Metric.CPU_SECONDS, 1), (Metric.PEAK_RSS_MB, 100), (Metric.ARTIFACT_BYTES, 1000)]
)
def test_the_threshold_lies_halfway_between_the_best_of_both_ends(metric: Metric, factor: float) -> None:
    bench = Bench({"1.0.0": [1.5, 1.0, 1.2], "1.2.0": [4.0, 9.0, 4.4]})
    reading = reading_between(bench, CASE, PLACES[0], PLACES[2], metric)
    assert reading.threshold == pytest.approx(2.0 * factor)


def test_ends_that_are_alike_cannot_be_bisected() -> None:
    bench = Bench({"1.0.0": [1.0, 1.0, 1.0], "1.2.0": [1.1, 1.1, 1.1]})
    with pytest.raises(BadInput, match="too little to bisect"):
        reading_between(bench, CASE, PLACES[0], PLACES[2], Metric.CPU_SECONDS)


def test_what_did_not_compile_has_no_number() -> None:
    assert value_of(probe(1.0, letter="F"), Metric.CPU_SECONDS) is None
    assert value_of(replace(probe(1.0), measured=Measured(1.0)), Metric.ARTIFACT_BYTES) is None


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Untestable(Cause.TOOLCHAIN, "does not build"), EnvironmentFailure),
        (Untestable(Cause.FLAG, "unknown flag"), BadInput),
        (outcome("F"), BadInput),
    ],
)
def test_an_end_without_a_number_is_told_with_the_reason(outcome: Outcome, error: type[Exception]) -> None:
    class Silent:
        def probe(self, case: object, place: object, *, fresh: bool) -> Probe:
            return replace(probe(1.0), outcome=outcome)

    why = outcome.reason if isinstance(outcome, Untestable) else "does not compile"
    with pytest.raises(error, match=why):
        reading_between(Silent(), CASE, PLACES[0], PLACES[2], Metric.CPU_SECONDS)


def test_a_number_that_is_the_same_each_time_may_grow_by_little_or_from_nothing() -> None:
    def small() -> Bench:
        return Bench({"1.0.0": [229.376] * 3, "1.2.0": [245.76] * 3})

    reading = reading_between(small(), CASE, PLACES[0], PLACES[2], Metric.ARTIFACT_BYTES)
    assert 229376 < reading.threshold < 245760
    with pytest.raises(BadInput, match=r"less than 1\.25 times"):
        reading_between(small(), CASE, PLACES[0], PLACES[2], Metric.CPU_SECONDS)
    nothing = Bench({"1.0.0": [0.0] * 3, "1.2.0": [0.016] * 3})
    assert reading_between(nothing, CASE, PLACES[0], PLACES[2], Metric.ARTIFACT_BYTES).threshold == 8
