"""Which releases to compile next so that every change of state is found with few compiles, as a value: no I/O.

Each case is a row of states over the same places. Two neighbours among the known places that differ hide a change
between them, which is then narrowed down by halving. Two that agree may hide a short window; where to look for those
is decided by how many changes the other cases had at each boundary: one bad release is seldom bad for one case only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SHORTER = 0.8  # a window one place longer is rarer by this factor
_EVERYWHERE = 0.5  # weight of a boundary where no case is known to change


@dataclass(slots=True)
class Survey:
    """States by case and place index. `hints` are places to ask before any other: the ends of windows a recipe names."""

    places: int
    hints: Mapping[str, Sequence[int]]
    states: dict[str, dict[int, Hashable]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.hints:
            self.states.setdefault(name, {})

    def know(self, name: str, index: int, state: Hashable) -> None:
        """One more answer."""
        self.states[name][index] = state

    def begin(self) -> list[tuple[str, int]]:
        """The ends of every row and what its recipe hints at."""
        ends = {0, self.places - 1}
        wanted = [(name, index) for name, hints in self.hints.items() for index in sorted(ends | set(hints))]
        return [(name, index) for name, index in wanted if index not in self.states[name]]

    def narrow(self) -> list[tuple[str, int]]:
        """The middle of every gap whose ends differ: needed, whatever it costs."""
        return [
            (name, (low + high) // 2)
            for name, row in self.states.items()
            for low, high in pairwise(sorted(row))
            if high - low > 1 and row[low] != row[high]
        ]

    def explore(self, count: int) -> list[tuple[str, int]]:
        """The `count` places most likely to show a window that is hidden between two places that agree."""
        weights = self.weights()
        scored = sorted(
            (
                (-self._chance(weights, low, high, index), name, index)
                for name, row in self.states.items()
                for low, high in pairwise(sorted(row))
                if row[low] == row[high]
                for index in range(low + 1, high)
            ),
        )
        chosen: list[tuple[str, int]] = []
        if count <= 0:
            return chosen
        for _, name, index in scored:
            row = self.states[name]
            low = max(at for at in row if at < index)
            if any(other == name and low < at < min(a for a in row if a > low) for other, at in chosen):
                continue  # one at a time in a gap: its answer moves the next best place
            chosen.append((name, index))
            if len(chosen) == count:
                break
        return chosen

    def weights(self) -> list[float]:
        """How likely a change is at each boundary: `weights[i]` lies between the places i - 1 and i."""
        weights = [_EVERYWHERE] * self.places
        for row in self.states.values():
            for low, high in pairwise(sorted(row)):
                if row[low] != row[high]:
                    for index in range(low + 1, high + 1):
                        weights[index] += 1 / (high - low)
        return weights

    def _chance(self, weights: Sequence[float], low: int, high: int, index: int) -> float:
        """Relative chance that a window inside (low, high) covers `index`: it begins after `low`, ends before `high`."""
        total = 0.0
        for begin in range(low + 1, index + 1):
            for end in range(index + 1, high + 1):
                total += weights[begin] * weights[end] * _SHORTER ** (end - begin - 1)
        return total
