"""Where a commit lies on a line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """`index` counts from the oldest commit, 0. `exact`: the commit `sha` itself stands there; otherwise it comes from
    a branch, and the index is that of the newest commit of the line that it contains (its merge base).
    """

    index: int
    sha: str
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """The commits behind `good`, up to and with `bad`."""

    good: Placement
    bad: Placement

    @property
    def indices(self) -> range:
        """The places of the suspects, oldest first: good excluded, bad included."""
        return range(self.good.index + 1, self.bad.index + 1)

    def __len__(self) -> int:
        return len(self.indices)
