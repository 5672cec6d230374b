"""Times are compared with an interval: no verdict from few samples, from noise, or within the threshold."""

from __future__ import annotations

import numpy as np
import pytest

from triage.execution.statistics import LEAST, Pace, compare_times


def times(median: float, noise: float, count: int, seed: int) -> list[float]:
    """Log-normal times, as a busy machine makes them."""
    return list(median * np.exp(noise * np.random.default_rng(seed).standard_normal(count)))


@pytest.mark.parametrize(
    ("ratio", "pace"), [(1.5, Pace.SLOWER), (0.6, Pace.FASTER), (1.0, Pace.SAME), (1.02, Pace.SAME), (1.05, Pace.NOISY)]
)
def test_clear_changes_are_named(ratio: float, pace: Pace) -> None:
    compared = compare_times(times(0.01, 0.01, 20, 1), times(0.01 * ratio, 0.01, 20, 2), 0.05)
    assert compared is not None
    assert compared.pace is pace
    assert compared.low <= compared.ratio <= compared.high


def test_few_samples_give_no_answer() -> None:
    assert compare_times([1.0] * LEAST, [2.0] * (LEAST - 1), 0.05) is None
    assert compare_times([0.0] * LEAST, [2.0] * LEAST, 0.05) is None


def test_noise_is_not_a_change() -> None:
    """Equal programs on a machine whose times vary by a fifth: none of 200 comparisons says slower or faster."""
    paces = {
        compared.pace
        for seed in range(200)
        if (compared := compare_times(times(0.01, 0.2, 12, seed), times(0.01, 0.2, 12, seed + 1000), 0.05))
    }
    assert paces <= {Pace.SAME, Pace.NOISY}


def test_the_same_samples_give_the_same_interval() -> None:
    first, second = times(0.01, 0.1, 10, 1), times(0.012, 0.1, 10, 2)
    assert compare_times(first, second, 0.05) == compare_times(first, second, 0.05)
