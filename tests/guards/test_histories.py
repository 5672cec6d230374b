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
        if trouble == "wrong prior" and not commits:
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
        (6, True, 0.78, 40),
        (8, False, 0.68, 28),
        pytest.param(100, True, 0.78, 45, marks=pytest.mark.slow),
        pytest.param(100, False, 0.7, 32, marks=pytest.mark.slow),
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
