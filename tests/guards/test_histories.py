"""The searches on simulated histories: few wrong answers that are called confirmed,
many answers, few probes.
"""

from __future__ import annotations

import pytest

from tests.guards.histories import RATES, TROUBLES, world
from tests.guards.history_adapter import search

ALLOWED = 0.005
"""Share of confirmed answers that may be wrong."""


def searched(count: int, *, commits: bool) -> tuple[int, int, int, int]:
    """Return the number of histories, confirmed and wrong answers, and probes."""
    runs = confirmed = wrong = probes = 0
    for trouble in TROUBLES:
        if trouble == "became worse" or (trouble == "wrong prior" and not commits):
            continue
        for rate in RATES:
            for seed in range(count):
                history = world(seed, trouble, rate, commits=commits)
                found = search(history, seed)
                runs, probes = runs + 1, probes + found.probes
                confirmed += found.confirmed
                wrong += found.confirmed and not history.is_true(
                    found.before, found.after
                )
    return runs, confirmed, wrong, probes


@pytest.mark.parametrize(
    ("count", "commits", "least_confirmed", "most_probes"),
    [
        # The failing end is probed again, in case the failure comes and goes; so is
        # what failed before the pair.
        (6, True, 0.75, 48),
        (8, False, 0.68, 37),
        pytest.param(100, True, 0.75, 50, marks=pytest.mark.slow),
        pytest.param(100, False, 0.68, 40, marks=pytest.mark.slow),
    ],
)
def test_confirmed_answers_are_right(
    count: int, commits: bool, least_confirmed: float, most_probes: float
) -> None:
    runs, confirmed, wrong, probes = searched(count, commits=commits)
    told = f"{runs} histories: {confirmed} confirmed, {wrong} wrong, {probes / runs:.1f} probes each"
    assert wrong <= ALLOWED * confirmed, told
    assert confirmed >= least_confirmed * runs, told
    assert probes <= most_probes * runs, told


@pytest.mark.parametrize("count", [30, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("commits", [True, False])
def test_what_became_worse_after_a_gap_is_not_confirmed_if_it_was_seen_before(
    count: int, commits: bool
) -> None:
    confirmed = wrong = 0
    for seed in range(count):
        history = world(seed, "became worse", 0.0, commits=commits)
        found = search(history, seed)
        confirmed += found.confirmed
        is_true = history.is_true(found.before, found.after)
        wrong += found.confirmed and found.seen_before and not is_true
    assert wrong <= ALLOWED * count
    assert confirmed >= 0.2 * count
