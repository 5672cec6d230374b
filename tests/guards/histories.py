"""Simulated histories: compilers whose probes are flaky, with holes, second
regressions, wrong priors, ends that lie, failures that change, and failures that become
worse after revisions that cannot be tested.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

TROUBLES = (
    "none",
    "holes",
    "second change",
    "wrong prior",
    "lying ends",
    "changed failure",
    "became worse",
)
RATES = (0.0, 0.01, 0.05, 0.1, 0.2)
"""How often a probe shows the other state."""


@dataclass(frozen=True)
class World:
    """A range and its truth.

    letters: the state of each candidate, P passes, F fails, G fails in another way, U is
    untestable, p fails sometimes. rates: how often its probe shows the other state.
    weights: how suspicious it is. ends_named: whether the search is told the first and
    the last candidate.
    """

    letters: str
    rates: Sequence[float]
    weights: Sequence[float]
    finds_fix: bool
    jobs: int
    commits: bool
    ends_named: bool

    def is_true(self, before: int, after: int) -> bool:
        """Whether the state changed between the two candidates, and not only how often
        the failure occurs.
        """
        pair = self.letters[before] + self.letters[after]
        if self.finds_fix:  # without named ends, the last failure is followed
            return pair in ("FP", "pP", "FG", "GP")
        return pair in ("PF", "Pp", "GF")


def world(seed: int, trouble: str, rate: float, *, commits: bool) -> World:
    """Make the history of a seed: 8 to 240 commits or 6 to 24 releases."""
    randomly = random.Random(f"{seed} {trouble} {rate} {commits}")
    size = round(8 * 30 ** randomly.random()) if commits else randomly.randint(6, 24)
    finds_fix, culprit = randomly.random() < 0.5, randomly.randrange(1, size)
    old, new = "FP" if finds_fix else "PF"
    letters = old * culprit + new * (size - culprit)
    rates, weights = [rate] * size, [1.0] * size
    if commits:
        weights = [randomly.gammavariate(0.3, 1) + 1e-3 for _ in range(size)]
    if trouble == "holes":
        for _ in range(randomly.randint(1, 1 + size // 8)):
            first = randomly.randrange(1, size - 1)
            end = min(size - 1, first + randomly.choice((1, 1, 2, 5)))
            letters = letters[:first] + "U" * (end - first) + letters[end:]
    elif trouble == "second change" and culprit >= 3:
        first, end = sorted(randomly.sample(range(1, culprit), 2))
        letters = letters[:first] + new * (end - first) + letters[end:]
    elif trouble == "wrong prior":
        weights[culprit] = min(weights) / 30
        weights[max(1, culprit - randomly.randint(1, 4))] = sum(weights)
    elif trouble == "lying ends":
        lie = randomly.randrange(5)
        if lie < 2:
            rates[-lie] = max(rate, 0.3)
        else:
            letters = (letters[::-1], new * size, old * size)[lie - 2]
    elif trouble in ("changed failure", "became worse") and culprit >= 4:
        first = randomly.randrange(1, culprit - 2)
        between = "G" * (culprit - first)
        if trouble == "became worse":
            gap = randomly.randint(1, min(3, culprit - first - 1))
            end = culprit - gap
            between = "p" * (end - first) + "U" * gap
            often = randomly.choice((0.1, 0.3, 0.5))
            rates[first:end] = [often] * (end - first)
        letters = "P" * first + between + "F" * (size - culprit)
        if finds_fix:
            letters, rates = letters[::-1], rates[::-1]
    named = commits or trouble == "lying ends" or randomly.random() < 0.5
    jobs = seed % 2 * 3 + 1
    return World(letters, rates, weights, finds_fix, jobs, commits, named)
