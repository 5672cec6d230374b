"""How far a reduction is. Nobody knows how small a program gets, but from the second round on a pass has taken its time
before, on a larger program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Pace:
    """Times the passes of each round, by their names, which differ."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._took: dict[str, float] = {}
        self._round = 1

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Around one pass."""
        started = time.monotonic()
        yield
        self._took[name] = time.monotonic() - started

    def next_round(self) -> None:
        """After the last pass of a round."""
        self._round += 1

    def where(self, name: str, *, changed: bool) -> str:
        """Which pass of which round this is; from the second round on also the seconds that are left at most, if no pass
        takes longer than it did. changed: this round made the program smaller, so that another follows.
        """
        at = self._names.index(name)
        text = f"{name} ({at + 1} of {len(self._names)}, round {self._round}"
        if self._round == 1:
            return f"{text})"
        left = sum(self._took[one] for one in self._names[at:]) + (sum(self._took.values()) if changed else 0.0)
        return f"{text}, at most about {left:.0f} s left)"
