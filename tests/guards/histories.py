"""Simulated histories: compilers whose probes are flaky, with holes, second
regressions, wrong priors and ends that lie.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

TROUBLES = ("none", "holes", "second change", "wrong prior", "lying ends")
RATES = (0.0, 0.01, 0.05, 0.2)
"""How often a probe shows the other state."""


@dataclass(frozen=True)
class World:
    """A range and its truth.

    letters: the state of each candidate, P passes, F fails, U is untestable. rates: how
    often its probe shows the other state.
    weights: how suspicious it is. ends_named: whether the search is told the first and
    the last candidate.
    """

    letters: str
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    finds_fix: bool
    jobs: int
    commits: bool
    ends_named: bool

    def is_true(self, before: int, after: int) -> bool:
        """Whether the state changed between the two candidates."""
        return self.letters[before] + self.letters[after] == (
            "FP" if self.finds_fix else "PF"
        )


def world(seed: int, trouble: str, rate: float, *, commits: bool) -> World:
    """Make the history of a seed: 8 to 240 commits or 6 to 24 releases."""
    randomly = random.Random(f"{seed} {trouble} {rate} {commits}")
    size = round(8 * 30 ** randomly.random()) if commits else randomly.randint(6, 24)
    finds_fix, culprit = randomly.random() < 0.5, randomly.randrange(1, size)
    old, new = "FP" if finds_fix else "PF"
    letters = [old] * culprit + [new] * (size - culprit)
    rates, weights = [rate] * size, [1.0] * size
    if commits:
        weights = [randomly.gammavariate(0.3, 1) + 1e-3 for _ in range(size)]
    if trouble == "holes":
        for _ in range(randomly.randint(1, 1 + size // 8)):
            first = randomly.randrange(1, size - 1)
            for index in range(
                first, min(size - 1, first + randomly.choice((1, 1, 2, 5)))
            ):
                letters[index] = "U"
    elif trouble == "second change" and culprit >= 3:
        broke, fixed = sorted(randomly.sample(range(1, culprit), 2))
        letters[broke:fixed] = [new] * (fixed - broke)
    elif trouble == "wrong prior":
        weights[culprit] = min(weights) / 30
        weights[max(1, culprit - randomly.randint(1, 4))] = sum(weights)
    elif trouble == "lying ends":
        lie = randomly.randrange(5)
        if lie < 2:
            rates[-lie] = max(rate, 0.3)
        else:
            letters = [letters[::-1], [new] * size, [old] * size][lie - 2]
    named = commits or trouble == "lying ends" or randomly.random() < 0.5
    return World(
        "".join(letters),
        tuple(rates),
        tuple(weights),
        finds_fix,
        seed % 2 * 3 + 1,
        commits,
        named,
    )
