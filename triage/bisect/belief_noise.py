"""How often probes are wrong, known or learnt. Values only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triage.model.outcome import Verdict


@dataclass(frozen=True, slots=True)
class Noise:
    """How often a probe is wrong: `false_good` of those after the change, `false_bad` of those before it (0 to below 1).

    certainty: how many probes this knowledge is worth. The rates are the means of Beta distributions with that many
    pseudo-observations, so the evidence itself moves them; infinite: they are known exactly.

    Raises:
        ValueError: a rate is outside its range, or both together leave a probe without meaning (their sum is 1 or more).
    """

    false_good: float = 0.0
    false_bad: float = 0.0
    certainty: float = math.inf

    def __post_init__(self) -> None:
        if not (0 <= self.false_good < 1 and 0 <= self.false_bad < 1 and self.false_good + self.false_bad < 1):
            raise ValueError(f"rates of wrong probes must be in [0, 1) and sum to less than 1: {self}")
        if not self.certainty > 0:
            raise ValueError(f"certainty must be positive: {self}")

    @property
    def exact(self) -> bool:
        """Whether every verdict is taken at its word."""
        return self.false_good == 0 and self.false_bad == 0


EXACT = Noise()
# One probe in twelve may be wrong, and twenty probes suffice to think otherwise. For lines where a place has been seen to
# disagree with itself; a compiler that never did is taken at its word.
FLAKY = Noise(0.08, 0.08, certainty=20.0)


def learnt_noise(repeats: Iterable[Sequence[Verdict]], prior: Noise = FLAKY) -> Noise:
    """The flake rate that repeated probes of the same place show, whatever the place's true state.

    repeats: for each place, the verdicts it gave. The minority counts as wrong, half of a tie does: a probe is as likely
    to be wrong towards good as towards bad when the truth is not known. `prior` is a Beta of `prior.certainty` probes with
    the mean of its two rates; the answer has its posterior mean for both rates and the certainty grown by what was seen.
    """
    if math.isinf(prior.certainty):
        return prior
    wrong = probes = 0.0
    for verdicts in repeats:
        good, bad = verdicts.count(Verdict.GOOD), verdicts.count(Verdict.BAD)
        if good + bad > 1:
            wrong += min(good, bad)
            probes += good + bad
    sure = prior.certainty + probes
    rate = ((prior.false_good + prior.false_bad) / 2 * prior.certainty + wrong) / sure
    rate = min(rate, 0.49)
    return Noise(rate, rate, sure)


def log_chance(wrong: int, right: int, rate: float, certainty: float) -> float:
    """Natural log of the chance of `wrong` wrong and `right` right probes; Beta-binomial unless the rate is known."""
    if rate == 0:
        return -math.inf if wrong else 0.0
    if math.isinf(certainty):
        return wrong * math.log(rate) + right * math.log1p(-rate)
    a, b = rate * certainty, (1 - rate) * certainty
    return _log_beta(a + wrong, b + right) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
