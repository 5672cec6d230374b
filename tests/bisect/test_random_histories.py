"""What a commit search promises, on histories of any kind: it never names a wrong
culprit.
"""

from __future__ import annotations

import random

import pytest

from tests.bisect import letters
from tests.bisect.letters import changes_of, index_of
from triage.bisect.result import Answer, Bisection
from triage.model.outcome import Cause


def suspects_of(found: Bisection) -> set[int]:
    return set(map(index_of, found.suspects))


@pytest.mark.parametrize("runs", [4, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", [0.4, 0.5, 0.6, 0.75])
def test_a_failure_that_comes_and_goes_since_its_culprit_is_not_blamed_on_a_later_commit(
    fails: float, runs: int
) -> None:
    confirmed = wrong = 0
    for seed in range(runs):
        randomly = random.Random(seed)
        places = randomly.choice((16, 64, 200))
        culprit = randomly.randrange(1, places)
        history = "P" * culprit + "F" * (places - culprit)
        found = changes_of(history, 1 - fails, seed)
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
