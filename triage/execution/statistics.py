"""Compare two samples of times: a ratio with an interval, and a verdict that is given only when the interval allows it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")

CONFIDENCE = 0.999
LEAST = 8  # samples of each side before anything is concluded
# Numbers of samples at which a verdict may end the measurement. Each look may be wrong by chance, so there are few.
LOOKS = (LEAST, 12, 18, 27, 40, 60)
_DEVIATIONS = 3.2905  # of the normal distribution, for that confidence on two sides


def rounds(rows: list[T], end: float, grace: float) -> Iterator[tuple[int, list[T]]]:
    """Yield the number of a round and its rows, forwards and backwards in turn, so that drift affects all alike.

    The caller removes rows that need no more samples. A caller may drop round 0, which warms up.

    Args:
        rows: What to measure.
        end: When to stop, by the monotonic clock, if each row has the least number of samples.
        grace: Seconds after which to stop in any case.
    """
    for number in range(LOOKS[-1] + 1):
        now = time.monotonic()
        if not rows or (now > end and number > LEAST) or now > end + grace:
            return
        yield number, rows[:: -1 if number % 2 else 1]


class Pace(StrEnum):
    """What two samples say about a change of time."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "the same"
    NOISY = "too noisy"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The ratio of times, new to baseline, and its interval."""

    ratio: float
    low: float
    high: float
    pace: Pace

    def __str__(self) -> str:
        """Return the ratio with its interval: `1.97 [1.92, 2.01]`."""
        return f"{self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}]"


def compare_times(baseline: Sequence[float], new: Sequence[float], threshold: float) -> Comparison | None:
    """Compare times in seconds; None while there are too few.

    The ratio is the median of the ratios of all pairs of a new and an old time (Hodges and Lehmann), and its interval holds
    the ratios that a Mann-Whitney test does not reject. It assumes no distribution and is right for few samples too.

    threshold: the smallest change that counts, 0.05 for five percent. A change is named only when the whole interval is
    beyond the threshold; equality only when the whole interval is within it.
    """
    first, second = len(baseline), len(new)
    if min(first, second) < LEAST or min(*baseline, *new) <= 0:
        return None
    import numpy as np

    ratios = np.sort(np.divide.outer(np.asarray(new), np.asarray(baseline)), axis=None)
    spread = _DEVIATIONS * math.sqrt(first * second * (first + second + 1) / 12)
    left_out = max(0, math.floor(first * second / 2 - spread))
    low, ratio, high = (float(value) for value in (ratios[left_out], np.median(ratios), ratios[-1 - left_out]))
    if low > 1 + threshold:
        pace = Pace.SLOWER
    elif high < 1 / (1 + threshold):
        pace = Pace.FASTER
    elif 1 / (1 + threshold) < low and high < 1 + threshold:
        pace = Pace.SAME
    else:
        pace = Pace.NOISY
    return Comparison(ratio, low, high, pace)
