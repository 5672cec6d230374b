"""Search for the smallest number that works."""

from __future__ import annotations

from collections.abc import Callable


def smallest(works: Callable[[int], bool], low: int, high: int, guess: int) -> int:
    """Return the smallest number that works, if all greater ones work, too. `low` is
    known not to work, and `high` to work. The search goes away from the guess in
    growing steps, then it halves.

    >>> smallest(lambda number: number >= 138, 0, 4096, guess=140)
    138
    """
    number = min(guess, high - 1)
    step = 4
    while high - low > 1:
        if works(number):
            high = number
            number = max((low + high) // 2, high - step)
        else:
            low = number
            number = min((low + high) // 2, low + step)
        step *= 4
    return high
