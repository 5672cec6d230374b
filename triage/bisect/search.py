"""The search for one change on a line of places, as a value: no I/O, no clock, no callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Side(Enum):
    """Where a place lies: before the change that is sought, after it, or it cannot be told."""

    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Search:
    """Places `first` .. `last` by index, oldest first; `sides` is what is known of some of them, in any order.

    Precondition: `first` is BEFORE and `last` is AFTER. Of several changes on the line, the one nearest to `last` among
    what is known is pursued: it is the one that led to `last`'s state.
    """

    first: int
    last: int
    sides: Mapping[int, Side] = field(default_factory=dict)

    def know(self, index: int, side: Side) -> Search:
        """The search with one more answer."""
        return Search(self.first, self.last, {**self.sides, index: side})

    @property
    def bounds(self) -> tuple[int, int]:
        """The last place known to be before the change and the first known to be after it."""
        after = self.last
        for index in range(self.last - 1, self.first, -1):
            match self.sides.get(index, Side.UNKNOWN):
                case Side.BEFORE:
                    return index, after
                case Side.AFTER:
                    after = index
        return self.first, after

    @property
    def open(self) -> tuple[int, ...]:
        """Places between the bounds that nobody asked yet."""
        before, after = self.bounds
        return tuple(index for index in range(before + 1, after) if index not in self.sides)

    @property
    def suspects(self) -> tuple[int, ...]:
        """The places that may be the first one after the change, the untestable ones included."""
        before, after = self.bounds
        return tuple(range(before + 1, after + 1))

    def next(self, count: int = 1) -> tuple[int, ...]:
        """Up to `count` places to ask at once, such that the suspects fall into parts as equal as can be; empty when
        nothing more can be learnt. With every place testable, one at a time, ceil(log2(suspects)) questions suffice.
        """
        before, after = self.bounds
        free = list(self.open)
        chosen: list[int] = []
        for part in range(1, count + 1):
            if not free:
                break
            ideal = before + (after - before) * part / (count + 1)
            best = min(free, key=lambda index: (abs(index - ideal), index))
            free.remove(best)
            chosen.append(best)
        return tuple(sorted(chosen))
