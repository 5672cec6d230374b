"""What is believed of each candidate, compared with enumeration, and which is probed
next.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.bisect.belief import WRONG, WRONG_KNOWN, Belief, next_probes, next_round
from triage.bisect.result import Side

OLD, NEW, SKIP = Side.OLD, Side.NEW, None


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, Side | None]]]:
    """Weights of a short line and evidence on its inner places, with repeats and skips."""
    weights = draw(st.lists(st.floats(0.01, 10), min_size=2, max_size=9))
    inner = st.integers(1, max(1, len(weights) - 2))
    evidence = draw(
        st.lists(st.tuples(inner, st.sampled_from([OLD, NEW, SKIP])), max_size=8)
    )
    return weights, evidence if len(weights) > 2 else []


def by_enumeration(
    weights: list[float], evidence: list[tuple[int, Side | None]]
) -> list[float]:
    """Bayes' rule hypothesis by hypothesis, probe by probe: each wrong probe makes the
    next one of its kind likelier.
    """
    posterior = [0.0]
    for first_new in range(1, len(weights)):
        chance = weights[first_new]
        # wrong ones and all
        seen = {kind: [WRONG * WRONG_KNOWN, WRONG_KNOWN] for kind in Side}
        for index, side in evidence:
            if side is not None:
                true = NEW if index >= first_new else OLD
                wrong, count = seen[true]
                chance *= wrong / count if side is not true else 1 - wrong / count
                seen[true] = [wrong + (side is not true), count + 1]
        posterior.append(chance)
    return [chance / sum(posterior) for chance in posterior]


@given(lines())
def test_the_posterior_equals_enumeration(
    line: tuple[list[float], list[tuple[int, Side | None]]],
) -> None:
    weights, evidence = line
    contradiction = ((0, NEW), (0, OLD))  # at an end: it tells nothing about the others
    belief = Belief.from_weights(weights).observe(*contradiction, *evidence)
    assert belief.doubtful
    assert belief.probabilities == pytest.approx(by_enumeration(weights, evidence))


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=40), st.data())
def test_true_exact_evidence_leaves_what_it_does_not_exclude(
    weights: list[float], data: st.DataObject
) -> None:
    places = len(weights)
    truth = data.draw(st.integers(1, places - 1))
    untestable = data.draw(st.sets(st.integers(1, places - 1), max_size=places))
    asked = data.draw(st.lists(st.integers(0, places - 1), max_size=12))
    evidence = [
        (i, SKIP if i in untestable else NEW if i >= truth else OLD) for i in asked
    ]
    belief = Belief.from_weights(weights).observe(*evidence)
    left = {
        first_bad
        for first_bad in range(1, places)
        if all(
            verdict is SKIP or (verdict is NEW) == (i >= first_bad)
            for i, verdict in evidence
        )
    }
    assert {index for index, _ in belief.suspects()} == left >= {truth}
    share = {
        index: weights[index] / sum(weights[one] for one in left) for index in left
    }
    assert belief.probabilities == pytest.approx(
        [share.get(index, 0) for index in range(places)]
    )
    assert belief.steps == max(
        1, math.ceil(-sum(p * math.log2(p) for p in share.values()) - 0.1)
    )


def search(
    belief: Belief,
    truth: int,
    jobs: int = 1,
    seconds: np.ndarray | None = None,
    untestable: Collection[int] = (),
) -> tuple[Belief, int, int]:
    """Probe until no probe can help; return the belief, the probes with a result, the
    rounds.
    """
    tests = rounds = 0
    while chosen := next_probes(
        belief, np.ones(belief.size) if seconds is None else seconds, jobs
    ):
        rounds += 1
        assert len(set(chosen)) == len(chosen) <= jobs
        assert list(chosen) == sorted(chosen)
        for place in chosen:
            assert 0 < place < belief.size - 1
            assert all(place != index for index, _ in belief.evidence)
            assert place not in belief.closed
            belief = belief.observe(
                (place, SKIP if place in untestable else NEW if place >= truth else OLD)
            )
            tests += place not in untestable
    return belief, tests, rounds


@given(suspects=st.integers(1, 400), jobs=st.integers(1, 8), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_clean_range_is_solved_in_logarithmic_rounds(
    suspects: int, jobs: int, data: st.DataObject
) -> None:
    truth = data.draw(st.integers(1, suspects))
    belief, tests, rounds = search(
        Belief.from_weights(np.ones(suspects + 1)), truth, jobs
    )
    assert belief.suspects() == [(truth, 1.0)]
    assert belief.is_resolved()
    assert rounds <= math.ceil(math.log(suspects, jobs + 1) - 1e-9) + 1
    if jobs == 1:
        assert tests <= math.ceil(math.log2(suspects)) + 1


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
    silent = set(np.flatnonzero(random.random(places) < share).tolist()) - {
        0,
        places - 1,
    }
    seconds = random.choice([1.0, 30.0, 900.0], size=places) if priced else None
    closed = (
        set(np.flatnonzero(random.random(places) < 0.25).tolist()) if priced else set()
    )
    weights = random.gamma(0.5, size=places) + 1e-4
    belief, _, _ = search(
        Belief.from_weights(weights, closed), truth, jobs, seconds, silent
    )
    left = {index for index, _ in belief.suspects()}
    assert truth in left
    assert left == set(range(min(left), max(left) + 1))
    assert set(range(min(left), max(left))) <= silent | closed
    assert belief.is_resolved()


@pytest.mark.parametrize(
    ("slow", "repeated"),
    [((), 8), ((8,), 5), ((5, 8), 6), ((5, 6, 8), 8)],
    ids=["none", "the end", "two", "all"],
)
def test_the_quickest_candidate_that_failed_is_probed_again_instead_of_a_slow_end(
    slow: Collection[int], repeated: int
) -> None:
    belief = Belief.from_weights([1] * 9).observe(
        (0, OLD), (8, NEW), (3, OLD), (6, NEW), (5, NEW), (4, NEW)
    )
    again = [20.0 if index in slow else 0.1 for index in range(9)]
    chosen = next_round(belief, np.ones(9), again, 1, NEW)
    # each of the pair three times, and seven times one outside of it
    assert chosen == {3: 3, 4: 3, repeated: 6}


def test_what_another_machine_saw_fail_is_not_repeated() -> None:
    belief = Belief.from_weights([1] * 5).observe(
        (0, OLD), (4, NEW), (1, OLD), (2, NEW)
    )
    belief = belief.observe((3, NEW), by_person=True)
    chosen = next_round(belief, np.ones(5), [0.1] * 4 + [20.0], 1, NEW)
    assert chosen == {1: 3, 2: 3, 4: 6}
