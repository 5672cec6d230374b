"""What the probes of a line prove, and which to make next. Pure values, no I/O.

Candidates are numbered 0 .. N-1 from the good end to the bad one; for a fix, the newest
is 0. One of the steps 1 .. N-1, each to a candidate from the one before it, is the
change.

The key insight: the probes are kept, and all else follows from them. While no candidate
shows both sides, a probe is proof, and halves the suspects by their weight. The first
contradiction makes all probes doubtful, the old ones too. The same probes are then
weighed by how often they were seen to be wrong, and the search turns back by itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

# one probe in twelve may be wrong, as if that had been seen in twenty
_PRIOR_WRONG = 0.08 * 20
_PRIOR_RIGHT = 0.92 * 20
_SURE = 0.995  # probability of a culprit
_FLAKY = 0.2  # rate of wrong probes that is assumed at least, once probes disagree
# log odds for the side of a candidate, with which chance proves a wrong one seldom
# enough, if five pairs are tried
_PROVED = math.log(2 * 5 / (1 - _SURE))
_HIGHEST_RATES = 0.9  # of both ends; with more, no number of probes tells them apart
_END_PROBES = 10  # that tell how often an end is wrong
_WINDOW_PROBES = 6  # failures, which chance seldom makes of a revision that passes
_LONG_PROBES = 22  # of which one nearly always shows a failure of one run in ten
_COST_WEIGHT = 0.2  # of all weight: so far off the middle is a probe that costs nothing


class Tally(NamedTuple):
    """How many probes of a candidate were good, bad, or neither."""

    good: int = 0
    bad: int = 0
    skipped: int = 0

    @property
    def tested(self) -> int:
        return self.good + self.bad

    @property
    def is_mixed(self) -> bool:
        return bool(self.good and self.bad)


@dataclass(frozen=True)
class Belief:
    """What is known of a line from its probes, in any order and with repeats."""

    weights: Sequence[float]
    """How suspicious each step is; the one to the first candidate counts for
    nothing.
    """
    tallies: Mapping[int, Tally]
    closed: Collection[int] = ()
    """Candidates that cannot be probed."""
    repeats: int = 3
    """How often each of a pair is probed again while no probe contradicts another."""

    @property
    def last(self) -> int:
        return len(self.weights) - 1

    def tally(self, index: int) -> Tally:
        return self.tallies.get(index, Tally())

    @cached_property
    def is_doubtful(self) -> bool:
        """Whether a candidate was good and bad, so that any probe may be wrong."""
        return any(tally.is_mixed for tally in self.tallies.values())

    @cached_property
    def decided(self) -> list[int]:
        """The candidates between the ends that were good or bad."""
        return [
            index
            for index in sorted(self.tallies)
            if 0 < index < self.last and self.tallies[index].tested
        ]

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The last good candidate before the first bad one after it, if each probe is
        right. Of several changes it is the one nearest to the bad end.
        """
        if self.is_doubtful:
            return 0, self.last
        high = self.last
        for index in reversed(self.decided):
            if self.tallies[index].good:
                return index, high
            high = index
        return 0, high

    @cached_property
    def chances(self) -> list[float]:
        """The probability of each step to be the change."""
        low, high = self.bounds
        odds = [0.0] * len(self.weights)
        odds[low + 1 : high + 1] = self.weights[low + 1 : high + 1]
        if self.is_doubtful:
            odds = self._weigh(odds)
        total = sum(odds)
        return [share / total for share in odds]

    def _weigh(self, odds: Sequence[float]) -> list[float]:
        """Weigh each step by the probes: those before it should be good."""
        good_after = sum(self.tallies[index].good for index in self.decided)
        bad_after = sum(self.tallies[index].bad for index in self.decided)
        good_before = bad_before = 0
        logs = [_log_chance(good_after, bad_after)]
        for index in self.decided:
            good, bad, _ = self.tallies[index]
            good_before, bad_before = good_before + good, bad_before + bad
            good_after, bad_after = good_after - good, bad_after - bad
            logs.append(
                _log_chance(bad_before, good_before)
                + _log_chance(good_after, bad_after)
            )
        weighed = []
        edges = [0, *(index + 1 for index in self.decided), len(odds)]
        for (first, end), log in zip(pairwise(edges), logs, strict=True):
            weighed += [share * math.exp(log - max(logs)) for share in odds[first:end]]
        return weighed

    @cached_property
    def likeliest_pair(self) -> tuple[int, int]:
        """The two candidates around the likeliest steps that no probe separates."""
        if not self.is_doubtful and not self.open_candidates:
            return self.bounds
        low = 0
        best = -1.0
        pair = (0, self.last)
        for index in range(1, len(self.weights)):
            if index in self.undecided and index != self.last:
                continue
            chance = sum(self.chances[low + 1 : index + 1])
            if chance > best + 1e-12:
                best = chance
                pair = (low, index)
            low = index
        return pair

    @cached_property
    def undecided(self) -> set[int]:
        """Candidates that cannot be probed, or were and never good or bad."""
        skipped = {index for index, tally in self.tallies.items() if not tally.tested}
        return skipped | set(self.closed)

    @cached_property
    def open_candidates(self) -> list[int]:
        """The candidates whose next probe may separate suspects."""
        inside = range(self.bounds[0] + 1, self.bounds[1])
        return [index for index in inside if index not in self.undecided]

    @property
    def is_resolved(self) -> bool:
        """Whether one group of steps is sure, with a probe on each side of it."""
        low, high = self.likeliest_pair
        return (
            sum(self.chances[low + 1 : high + 1]) >= _SURE - 1e-12
            and (low == 0 or self.tally(low).good > 0)
            and (high == self.last or self.tally(high).bad > 0)
        )

    @property
    def is_confirmed(self) -> bool:
        """Whether the pair was proved by more probes, and the failure is not older."""
        return (
            self.is_resolved
            and max(self._missing_probes.values()) <= 0
            and self.older_failure is None
        )

    # Which to probe next

    def next_probes(self, jobs: int, seconds: Sequence[float]) -> Mapping[int, int]:
        """Return which candidates to probe next, and how often; empty if the answer is
        final, or no probe can help.

        seconds: to obtain each candidate.
        """
        more = self._probes_of_ends()
        if more:
            return more
        if self.is_doubtful and sum(self._wrong_rates(0, self.last)) > _HIGHEST_RATES:
            return {}
        if not self.is_resolved:
            return self.dividing_probes(jobs, seconds)
        return self._probes_of_pair() or self._probes_before_pair(jobs)

    def _probes_of_ends(self) -> Mapping[int, int]:
        """Return probes of the ends that tell how often probes are wrong."""
        if not self.is_doubtful:
            return {}
        good = self.tally(0)
        bad = self.tally(self.last)
        most = max(self.tally(index).tested for index in self.likeliest_pair)
        missing = {self.last: max(_END_PROBES, most) - bad.tested}
        if good.bad:
            missing[0] = _END_PROBES - good.tested
        return {index: count for index, count in missing.items() if count > 0}

    def dividing_probes(self, jobs: int, seconds: Sequence[float]) -> Mapping[int, int]:
        """Return the candidates that divide the suspects most evenly."""
        if not self.open_candidates:
            return {}
        below = list(accumulate(self.chances))
        longest = max(seconds[index] for index in self.open_candidates) or 1.0
        chosen: dict[int, int] = {}

        def distance_and_cost(index: int, wanted: float) -> float:
            distance = abs(below[index] - wanted)
            return distance + _COST_WEIGHT * seconds[index] / longest

        for part in range(1, min(jobs, len(self.open_candidates)) + 1):
            wanted = part / (jobs + 1)
            best = min(
                (index for index in self.open_candidates if index not in chosen),
                key=lambda index: distance_and_cost(index, wanted),
            )
            chosen[best] = 1
        return dict(sorted(chosen.items()))

    def _probes_of_pair(self) -> Mapping[int, int]:
        """Return probes that prove the pair, and of the bad end, which also shows
        whether the failure comes and goes.
        """
        missing = self._missing_probes
        if self.is_doubtful:
            return {index: 1 for index, count in missing.items() if count > 0}
        if self.last not in missing or self.repeats > 1:
            more = 2 * self.repeats + 1 - self.tally(self.last).tested
            missing = {**missing, self.last: max(more, missing.get(self.last, 0))}
        return {
            index: count
            for index, count in missing.items()
            if count > 0 and self.tally(index).skipped <= self.repeats
        }

    def _probes_before_pair(self, jobs: int) -> Mapping[int, int]:
        """Return probes that tell whether a failure that was seen before the pair is
        older. It may have been one wrong probe; one of the good end may show anywhere.
        """
        early = self.early_failures
        if not early:
            return {}
        index = early[0]
        wanted = _LONG_PROBES
        most = jobs
        if not self.tally(index).is_mixed:  # in a window of failures each probe fails
            wanted = most = _WINDOW_PROBES
        elif sum(self.tally(other).bad for other in early) > 1:
            if self.tally(0).bad:
                return {}
            index = 0
        more = min(most, wanted - self.tally(index).tested)
        if more > 0:
            return {index: more}
        return {}

    # Confirm

    @cached_property
    def _missing_probes(self) -> Mapping[int, int]:
        """How many more probes prove the side of each of the pair."""
        low, high = self.likeliest_pair
        good = self.tally(low)
        bad = self.tally(high)
        if not self.is_doubtful:
            wanted = self.repeats + 1
            return {low: wanted - good.good, high: wanted - bad.bad}
        rates = zip(
            self._wrong_rates(0, self.last), self._wrong_rates(low, high), strict=True
        )
        of_good, of_bad = map(max, rates)
        of_good = min(of_good, 0.5)
        of_bad = min(of_bad, 0.98 - of_good)
        return {
            low: _missing_count(good.good, good.bad, of_good, of_bad),
            high: _missing_count(bad.bad, bad.good, of_bad, of_good),
        }

    def _wrong_rates(self, good: int, bad: int) -> tuple[float, float]:
        """Estimate how often a good candidate is bad in a probe, and a bad one good."""
        first = self.tally(good)
        second = self.tally(bad)
        return _rate(first.bad, first.tested), _rate(second.good, second.tested)

    @property
    def early_failures(self) -> list[int]:
        """The candidates up to the pair that showed the failure, without the good
        end.
        """
        low, _ = self.likeliest_pair
        return [
            index for index in self.decided if index <= low and self.tally(index).bad
        ]

    @property
    def older_failure(self) -> int | None:
        """The candidate from which on the failure comes and goes, if the pair only
        made it worse. What cannot be tested may hide where it became so.
        """
        low, high = self.likeliest_pair
        early = self.early_failures
        if high - low > 1:
            mixed = [index for index in (0, *early) if self.tally(index).is_mixed]
            return next(iter(mixed), None)
        if not early or self.tally(0).bad:
            return None
        is_one_probe = sum(self.tally(index).bad for index in early) == 1
        if is_one_probe or not self.tally(early[0]).is_mixed:
            return None
        return early[0]


def _rate(wrong: int, tested: int) -> float:
    if wrong == 0:
        return _FLAKY
    return max(_FLAKY, (wrong + 1) / (tested + 2))


def _missing_count(right: int, wrong: int, rate: float, other_rate: float) -> int:
    """Return how many more right probes of a candidate prove its side. rate: how often
    its probes are wrong; other_rate: those of the other side.
    """
    gain = math.log((1 - rate) / other_rate)
    loss = math.log((1 - other_rate) / rate)
    return math.ceil((_PROVED - right * gain + wrong * loss) / gain - 1e-9)


def _log_chance(wrong: int, right: int) -> float:
    """Return the log of the chance of so many wrong and right probes."""
    return _log_beta(_PRIOR_WRONG + wrong, _PRIOR_RIGHT + right) - _log_beta(
        _PRIOR_WRONG, _PRIOR_RIGHT
    )


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
