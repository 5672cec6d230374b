"""What a commit search promises, on histories of any kind: it never names a wrong
culprit.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bisect import letters
from tests.bisect.letters import (
    HistoryEngine,
    LetterRange,
    changes_of,
    letter_range,
    plain_range,
    run_alone,
    search_along,
)
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.model.outcome import Cause

PRICES = (0.0, 5.0, 60.0, 1800.0)


def closed_of(line: LetterRange) -> set[int]:
    return {
        index for index, one in enumerate(line.candidates) if one.untestable is not None
    }


@dataclass(frozen=True)
class World:
    """`letters`: the outcome of each candidate; `culprit`: the first one of the new
    state.
    """

    letters: str
    culprit: int
    range: LetterRange
    jobs: int
    kind: BisectKind

    @property
    def suspects(self) -> set[int]:
        """The culprit and the candidates that no probe can separate from it."""
        tell = [
            index
            for index, letter in enumerate(self.letters)
            if letter in "PF" and index not in closed_of(self.range)
        ]
        low = max(index for index in tell if index < self.culprit)
        return set(
            range(low + 1, min(index for index in tell if index >= self.culprit) + 1)
        )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """0 to 60 % of the candidates are skipped: alone or in runs, as after a renamed
    flag or a broken build; others fail otherwise; artifacts are missing; prices and
    suspicions are of any kind, the culprit's own included.
    """
    places = draw(st.integers(2, 90))
    culprit = draw(st.integers(1, places - 1))
    kind = draw(st.sampled_from(BisectKind))
    silent = draw(st.floats(0, 0.6))
    randomly = random.Random(draw(st.integers(0, 1 << 32)))
    old, new = ("P", "F") if kind is BisectKind.REGRESSION else ("F", "P")
    letters = [old if index < culprit else new for index in range(places)]
    for word in "UG":
        share = silent * (0.7 if word == "U" else 0.3)
        while sum(letter == word for letter in letters) < share * places - 1:
            first = randomly.randrange(places)
            for index in range(
                first, min(places, first + randomly.choice((1, 1, 2, 5, 12)))
            ):
                letters[index] = word
    letters[0], letters[-1] = old, new
    shut = frozenset(
        index
        for index in range(1, places - 1)
        if randomly.random() < draw(st.sampled_from((0, 0, 0.3)))
    )
    priced, suspicious = draw(st.booleans()), draw(st.booleans())
    candidates = letter_range(
        [randomly.choice(PRICES) if priced else 1.0 for _ in range(places)],
        [
            randomly.gammavariate(0.3, 1) + 1e-4 if suspicious else 1.0
            for _ in range(places)
        ],
        shut,
    )
    return World("".join(letters), culprit, candidates, draw(st.integers(1, 8)), kind)


def holds(world: World) -> None:
    engine = HistoryEngine(world.letters, world.jobs)
    found = run_alone(search_along(engine, world.range, world.kind))
    named = suspects_of(found)
    assert named == world.suspects
    assert world.culprit in named
    assert (found.status is Answer.CULPRIT) == (len(named) == 1)
    assert found.confirmed
    assert abs(sum(one.probability for one in found.suspects) - 1) < 0.01
    asked = Counter(engine.indices)
    assert not asked.keys() & closed_of(world.range)
    again = 3
    assert set(asked.values()) <= {1, 1 + again, 1 + 2 * again}


def suspects_of(found: Bisection) -> set[int]:
    return {int(one.name[1:]) for one in found.suspects}


@pytest.mark.parametrize(
    "examples", [100, pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_the_answer_is_the_best_possible(examples: int) -> None:
    settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck)
    )(given(worlds())(holds))()


@pytest.mark.parametrize("runs", [8, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", [0.4, 0.5, 0.6, 0.75])
def test_a_failure_that_comes_and_goes_since_its_culprit_is_not_blamed_on_a_later_commit(
    fails: float, runs: int
) -> None:
    confirmed = wrong = 0
    for seed in range(runs):
        randomly = random.Random(seed)
        places = randomly.choice((16, 64, 200))
        culprit = randomly.randrange(1, places)
        engine = HistoryEngine(
            "P" * culprit + "F" * (places - culprit), 1, 1 - fails, seed
        )
        found = run_alone(search_along(engine, plain_range(places)))
        confirmed += found.confirmed
        wrong += found.confirmed and culprit not in suspects_of(found)
    assert wrong <= 0.005 * confirmed
    assert confirmed >= (0.9 * runs if fails > 0.7 else 0)


@pytest.mark.parametrize(
    ("family", "places", "most"),
    [("codegen", 2, 4), ("codegen", 40, 12), ("crash", 2, 11), ("crash", 40, 20)],
)
def test_a_culprit_costs_few_probes_and_most_where_a_failure_may_come_and_go(
    family: str, places: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters.failure, "__defaults__", (family,))
    for culprit in range(1, places):
        found = changes_of("P" * culprit + "F" * (places - culprit))
        assert found.status is Answer.CULPRIT
        assert suspects_of(found) == {culprit}
        assert found.probes <= most


def test_a_search_ends_soon_if_no_compiler_can_be_obtained_between_its_ends() -> None:
    found = changes_of("P" + "X" * 38 + "F")
    assert (found.status, found.confirmed) == (Answer.SUSPECTS, False)
    assert found.unanswered is not None
    assert found.unanswered.cause is Cause.ENVIRONMENT
    assert found.probes <= 7
