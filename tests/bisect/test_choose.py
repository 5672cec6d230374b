from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.bisect.belief import Belief
from triage.bisect.choose import next_probes, untestable_odds
from triage.bisect.result import Side

OLD, NEW, SKIP = Side.OLD, Side.NEW, None
SPARE = 2


def search(
    belief: Belief, truth: int, jobs: int = 1, seconds: np.ndarray | None = None, untestable: Collection[int] = ()
) -> tuple[Belief, int, int]:
    """Probe until no probe can help; return the belief, the probes with a result, the rounds."""
    tests = rounds = 0
    while chosen := next_probes(belief, seconds, jobs):
        rounds += 1
        assert len(set(chosen)) == len(chosen) <= jobs
        assert list(chosen) == sorted(chosen)
        for place in chosen:
            assert 0 < place < belief.size - 1
            assert all(place != index for index, _ in belief.evidence)
            assert seconds is None or math.isfinite(seconds[place])
            belief = belief.observe(place, SKIP if place in untestable else NEW if place >= truth else OLD)
            tests += place not in untestable
    return belief, tests, rounds


@given(suspects=st.integers(1, 400), jobs=st.integers(1, 8), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_clean_range_is_solved_in_logarithmic_rounds(suspects: int, jobs: int, data: st.DataObject) -> None:
    truth = data.draw(st.integers(1, suspects))
    belief, tests, rounds = search(Belief.from_weights(np.ones(suspects + 1)), truth, jobs)
    assert belief.suspects() == ((truth, 1.0),)
    assert belief.is_resolved()
    assert rounds <= math.ceil(math.log(suspects, jobs + 1) - 1e-9) + 1
    if jobs == 1:
        assert tests <= math.ceil(math.log2(suspects)) + 1


def test_the_worst_suspect_costs_two_probes_more_than_halving() -> None:
    random = np.random.default_rng(5)
    for suspects in (5, 23, 57):
        weights = random.gamma(0.1, size=suspects + 1) + 1e-6
        for truth in range(1, suspects + 1):
            assert search(Belief.from_weights(weights), truth)[1] <= math.ceil(math.log2(suspects)) + SPARE


def test_the_same_holds_for_builds_between_two_downloads() -> None:
    random = np.random.default_rng(3)
    seconds = np.full(61, 1800.0)
    downloads = [12, 25, 31, 50]
    seconds[downloads] = 60.0
    weights = random.gamma(0.1, size=61) + 1e-6
    for truth in range(1, 61):
        belief, tests, _ = search(Belief.from_weights(weights), truth, seconds=seconds)
        downloaded = [index for index, _ in belief.evidence if index in downloads]
        sides = [(index, NEW if index >= truth else OLD) for index in downloaded]
        low, high = Belief.from_weights(np.ones(61)).observe_all(sides).bounds
        assert tests - len(downloaded) <= math.ceil(math.log2(high - low)) + SPARE


@given(
    places=st.integers(2, 60),
    share=st.floats(0, 0.6),
    jobs=st.integers(1, 5),
    seed=st.integers(0, 10_000),
    priced=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_the_truth_stays_a_suspect_and_only_the_untestable_stay_with_it(
    places: int, share: float, jobs: int, seed: int, priced: bool
) -> None:
    random = np.random.default_rng(seed)
    truth = int(random.integers(1, places))
    silent = set(np.flatnonzero(random.random(places) < share).tolist()) - {0, places - 1}
    seconds = random.choice([1.0, 30.0, 900.0, math.inf], size=places) if priced else None
    closed = set(np.flatnonzero(np.isinf(seconds)).tolist()) if seconds is not None else set()
    weights = random.gamma(0.5, size=places) + 1e-4
    belief, _, _ = search(Belief.from_weights(weights), truth, jobs, seconds, silent)
    left = {index for index, _ in belief.suspects()}
    assert truth in left
    assert left == set(range(min(left), max(left) + 1))
    assert set(range(min(left), max(left))) <= silent | closed
    assert belief.is_resolved(closed=closed)


@given(st.integers(4, 14), st.integers(0, 500))
@settings(max_examples=40, deadline=None)
def test_probes_are_nearly_as_informative_as_the_best(places: int, seed: int) -> None:
    belief = Belief.from_weights(np.random.default_rng(seed).gamma(0.5, size=places) + 1e-3)
    sums = np.cumsum(belief.probabilities)

    def entropy(cuts: tuple[int, ...]) -> float:
        parts = np.diff([0.0, *(sums[cut] for cut in cuts), 1.0])
        return float(-sum(part * math.log2(part) for part in parts if part > 0))

    best = max(entropy((one, other)) for one in range(1, places - 1) for other in range(one + 1, places - 1))
    assert entropy(next_probes(belief, jobs=2, untestable=np.zeros(places))) >= 0.9 * best


def test_cheap_candidates_are_probed_first() -> None:
    seconds = np.full(100, 1800.0)
    seconds[::10] = 5.0
    belief = Belief.from_weights(np.ones(100))
    assert all(place % 10 == 0 for jobs in (1, 4) for place in next_probes(belief, seconds, jobs))
    narrowed = belief.observe(40, OLD).observe(50, NEW)
    assert 40 < next_probes(narrowed, seconds)[0] < 50


def test_a_skipped_candidate_makes_its_neighbours_less_likely_to_be_testable() -> None:
    belief = Belief.from_weights(np.ones(101))
    middle = next_probes(belief)[0]
    odds = untestable_odds(belief.observe(middle, SKIP).observe(10, OLD))
    assert (odds[middle], odds[10]) == (1, 0)
    assert odds[middle + 1] > odds[middle + 5] > odds[middle + 30] > odds[11]
    assert abs(next_probes(belief.observe(middle, SKIP))[0] - middle) > 3


def test_nothing_is_chosen_when_no_probe_can_help() -> None:
    assert next_probes(Belief.from_weights(np.ones(2))) == ()
    assert next_probes(Belief.from_weights(np.ones(4)), [1, math.inf, math.inf, 1]) == ()
    assert next_probes(Belief.from_weights(np.ones(4)).observe_all([(1, SKIP), (2, SKIP)]), jobs=3) == ()
    assert next_probes(Belief.from_weights(np.ones(5)), jobs=9) == (1, 2, 3)
    with pytest.raises(ValueError, match="negative"):
        next_probes(Belief.from_weights(np.ones(4)), [1, -2, 1, 1])
