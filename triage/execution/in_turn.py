"""Measure several things in turn, and compare two samples of times.

The key insight: a machine heats up, is shared and slows down while it measures, so that
equal things which are measured one after the other seem to differ. Measured in turn,
all are affected alike. A ratio of times has an interval, and a verdict is given only
when the whole interval allows it.

    >>> str(ratio_of([1.0, 1.01] * 4, [2.0, 2.02] * 4))
    '2.00 [1.98, 2.02]'
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from statistics import median
from typing import TypeVar

from triage.model.fields import UNPRINTED, in_json, key
from triage.model.outcome import NoAnswer

CONFIDENCE = 0.999
MIN_SAMPLES = 8  # samples of each side before anything is concluded
# Numbers of samples at which a verdict may end the measurement. Each look may be wrong
# by chance, so there are few.
LOOKS = (MIN_SAMPLES, 12, 18, 27, 40, 60)
_DEVIATIONS = 3.2905  # of the normal distribution, for that confidence on two sides


class Pace(StrEnum):
    """What two samples say about a change of time."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "the same"
    NOISY = "too noisy"


@dataclass(frozen=True)
class Ratio:
    """The ratio of two times, and its interval."""

    value: float = field(metadata=key("ratio"))
    low: float
    high: float

    def __str__(self) -> str:
        """Return the ratio with its interval, if it has one: `1.97 [1.92, 2.01]`."""
        if self.low == self.high:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def pace(self, threshold: float) -> Pace:
        """Return the verdict on a time with this ratio to the baseline. A change of
        `threshold`, such as 0.05, is the smallest that counts.
        """
        most = 1 + threshold
        least = 1 / (1 + threshold)
        if self.low > most:
            return Pace.SLOWER
        if self.high < least:
            return Pace.FASTER
        if least < self.low and self.high < most:
            return Pace.SAME
        return Pace.NOISY


def ratio_of(baseline: Sequence[float], new: Sequence[float]) -> Ratio | None:
    """Return the ratio of the new times to those of the baseline; None while there are
    too few.

    It is the median of the ratios of all pairs of a new and an old time (Hodges and
    Lehmann), and its interval holds the ratios that a Mann-Whitney test does not
    reject. It assumes no distribution and is right for few samples too.
    """
    first = len(baseline)
    second = len(new)
    if min(first, second) < MIN_SAMPLES or min(*baseline, *new) <= 0:
        return None
    ratios = sorted(after / before for after in new for before in baseline)
    spread = _DEVIATIONS * math.sqrt(first * second * (first + second + 1) / 12)
    left_out = max(0, math.floor(first * second / 2 - spread))
    return Ratio(median(ratios), ratios[left_out], ratios[-1 - left_out])


Sampler = Callable[[], float | NoAnswer]
"""Measures something once, such as a time in seconds."""


@dataclass(kw_only=True)
class Contender:
    """Something that is measured in turn with others."""

    sampler: Sampler | None = field(default=None, metadata=UNPRINTED)
    samples: list[float] = field(default_factory=list)
    problem: NoAnswer | None = field(default=None, metadata=UNPRINTED)
    """Why it cannot be measured."""

    @in_json
    def median(self) -> float | None:
        if self.samples:
            return median(self.samples)
        return None

    @in_json
    def reason(self) -> str | None:
        """Why there are no times."""
        if self.problem:
            return self.problem.reason
        return None


ContenderT = TypeVar("ContenderT", bound=Contender)


def measure_in_turn(
    contenders: list[ContenderT], end: float, grace: float, *, warm_up: bool = True
) -> Iterator[int]:
    """Measure all forwards and backwards in turn, and yield after each round how many
    samples they have. The samples of a first round that warms up are dropped.

    One that cannot be measured is removed from the list; the caller removes those that
    need no more samples. It stops at `end`, by the monotonic clock, if each has the
    least number of samples, else `grace` seconds later.
    """
    first = 0 if warm_up else 1
    for samples_taken in count(first):
        for contender in contenders if samples_taken % 2 else contenders[::-1]:
            assert contender.sampler
            sample = contender.sampler()
            if isinstance(sample, NoAnswer):
                contender.problem = sample
            elif samples_taken > 0:
                contender.samples.append(sample)
        contenders[:] = [
            contender for contender in contenders if contender.problem is None
        ]
        yield samples_taken
        late = time.monotonic() - end
        enough = late > 0 and samples_taken >= MIN_SAMPLES
        if not contenders or samples_taken == LOOKS[-1] or enough or late > grace:
            return
