from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.bisect.belief import EXACT, FLAKY, Belief, Noise
from triage.bisect.result import Side

OLD, NEW, SKIP = Side.OLD, Side.NEW, None
RATES = st.sampled_from([0.01, 0.1, 0.3])


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, Side | None]]]:
    """Weights of a short line and evidence on its inner places, with repeats and skips."""
    weights = draw(st.lists(st.floats(0.01, 10), min_size=2, max_size=9))
    inner = st.integers(1, max(1, len(weights) - 2))
    evidence = draw(st.lists(st.tuples(inner, st.sampled_from([OLD, NEW, SKIP])), max_size=8))
    return weights, evidence if len(weights) > 2 else []


def by_enumeration(weights: list[float], evidence: list[tuple[int, Side | None]], noise: Noise) -> list[float]:
    """Bayes' rule hypothesis by hypothesis, with known rates."""
    posterior = [0.0]
    for first_bad in range(1, len(weights)):
        chance = weights[first_bad]
        for index, verdict in evidence:
            says_bad = 1 - noise.false_old if index >= first_bad else noise.false_new
            chance *= {OLD: 1 - says_bad, NEW: says_bad, SKIP: 1.0}[verdict]
        posterior.append(chance)
    return [chance / sum(posterior) for chance in posterior]


@given(lines(), RATES, RATES)
def test_the_posterior_equals_enumeration(
    line: tuple[list[float], list[tuple[int, Side | None]]], false_old: float, false_new: float
) -> None:
    weights, evidence = line
    noise = Noise(false_old, false_new)
    belief = Belief.from_weights(weights, noise).observe_all(evidence)
    assert belief.probabilities == pytest.approx(by_enumeration(weights, evidence, noise))


@given(lines(), st.floats(0.02, 0.3), st.floats(2, 50))
def test_unknown_rates_are_integrated_over(
    line: tuple[list[float], list[tuple[int, Side | None]]], rate: float, certainty: float
) -> None:
    weights, evidence = line
    belief = Belief.from_weights(weights, Noise(rate, rate, certainty)).observe_all(evidence)
    # The same by one verdict after the other: each is expected as the ones before it on the same side have shown.
    posterior = [0.0]
    for first_bad in range(1, len(weights)):
        chance, wrong, seen = weights[first_bad], {True: 0.0, False: 0.0}, {True: 0.0, False: 0.0}
        for index, verdict in evidence:
            if verdict is SKIP:
                continue
            after = index >= first_bad
            is_wrong = (verdict is NEW) != after
            mean = (rate * certainty + wrong[after]) / (certainty + seen[after])
            chance *= mean if is_wrong else 1 - mean
            wrong[after] += is_wrong
            seen[after] += 1
        posterior.append(chance)
    assert belief.probabilities == pytest.approx([chance / sum(posterior) for chance in posterior])


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=40), st.data())
def test_true_exact_evidence_leaves_what_it_does_not_exclude(weights: list[float], data: st.DataObject) -> None:
    places = len(weights)
    truth = data.draw(st.integers(1, places - 1))
    untestable = data.draw(st.sets(st.integers(1, places - 1), max_size=places))
    asked = data.draw(st.lists(st.integers(0, places - 1), max_size=12))
    evidence = [(i, SKIP if i in untestable else NEW if i >= truth else OLD) for i in asked]
    belief = Belief.from_weights(weights).observe_all(evidence)
    left = {
        first_bad
        for first_bad in range(1, places)
        if all(verdict is SKIP or (verdict is NEW) == (i >= first_bad) for i, verdict in evidence)
    }
    assert {index for index, _ in belief.suspects()} == left >= {truth}
    share = {index: weights[index] / sum(weights[one] for one in left) for index in left}
    assert belief.probabilities == pytest.approx([share.get(index, 0) for index in range(places)])
    assert belief.entropy == pytest.approx(-sum(p * math.log2(p) for p in share.values()), abs=1e-9)


@given(lines(), st.sampled_from([EXACT, FLAKY, Noise(0.2, 0.0), Noise(0.0, 0.2, 10)]))
def test_any_evidence_in_any_order_gives_probabilities(
    line: tuple[list[float], list[tuple[int, Side | None]]], noise: Noise
) -> None:
    weights, evidence = line
    belief = Belief.from_weights(weights, noise).observe_all(evidence)
    other = Belief.from_weights(weights, noise).observe_all(reversed(evidence))
    assert belief.probabilities == pytest.approx(other.probabilities)
    assert belief.probabilities.sum() == pytest.approx(1)
    assert belief.probabilities[0] == 0
    assert sum(block.probability for block in belief.blocks()) == pytest.approx(1)
    held = belief.credible(0.8)
    assert belief.probabilities[list(held)].sum() >= 0.8 - 1e-9
    assert list(held) == sorted(held)


def test_of_several_changes_the_one_nearest_to_the_new_end_is_searched() -> None:
    belief = Belief.from_weights(np.ones(10)).observe_all([(3, NEW), (5, OLD), (8, NEW)])
    assert belief.bounds == (5, 8)
    assert {index for index, _ in belief.suspects()} == {6, 7, 8}


def test_a_candidate_that_contradicts_itself_counts_for_nothing() -> None:
    belief = Belief.from_weights(np.ones(10)).observe_all([(4, NEW), (4, OLD)])
    assert belief.bounds == (0, 9)
    assert belief.contradictory == {4}
    narrowed = belief.observe_all([(3, OLD), (5, NEW)])
    assert (narrowed.leading().first, narrowed.leading().last) == (4, 5)


def test_a_prior_alone_convicts_nobody() -> None:
    sure = Belief.from_weights([1, 1e-9, 1, 1e-9, 1e-9], FLAKY)
    assert sure.probabilities[2] > 0.999
    assert not sure.is_resolved()
    assert sure.missing_witnesses(sure.leading()) == (1, 2)
    seen = sure.observe_all([(1, OLD), (2, NEW)])
    assert seen.is_resolved()
    assert seen.missing_witnesses(seen.leading()) == ()


def test_closed_candidates_join_their_neighbours() -> None:
    blocks = Belief.from_weights(np.ones(6)).observe(3, SKIP).blocks(closed={2})
    assert [(block.first, block.last) for block in blocks] == [(1, 1), (2, 4), (5, 5)]
    assert [block.probability for block in blocks] == pytest.approx([0.2, 0.6, 0.2])
