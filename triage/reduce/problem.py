"""Make a program smaller while it stays interesting.

The key insight: a pass only proposes smaller programs; one test decides. A pass is a
function from a problem to nothing: it offers candidates to the problem, which keeps the
first one that is interesting as its current program.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TypeVar

from triage.reduce.interestingness import CompileTest
from triage.reduce.program import ReducedCase, Reducible

T = TypeVar("T")
_PATIENCE = 40  # refused programs in a row, after which a search ends


@dataclass
class ReductionProblem:
    """The smallest interesting program so far, and the test that a smaller one must
    pass.
    """

    current: ReducedCase
    test: CompileTest
    jobs: int = 1
    _answers: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._set_current(self.current)

    def take_first(self, candidates: Iterable[ReducedCase | None]) -> int | None:
        """Make the first interesting candidate the current program, and return its
        position; None if there is none, or none before 40 others were refused.

        First means in the order of `candidates`, whichever thread answers first.
        """
        stop, refused = threading.Event(), 0
        source = enumerate(candidates)
        asked: deque[tuple[int, ReducedCase | None, Future[bool | None]]] = deque()
        with ThreadPoolExecutor(self.jobs, "candidate") as pool:
            try:
                while refused < _PATIENCE:
                    for position, candidate in islice(source, self.jobs - len(asked)):
                        answer = pool.submit(self._ask, candidate, stop)
                        asked.append((position, candidate, answer))
                    if not asked:
                        return None
                    position, candidate, answer = asked.popleft()
                    is_interesting = answer.result()
                    if candidate and is_interesting:
                        self._set_current(candidate)
                        return position
                    refused += is_interesting is not None
                return None
            finally:
                stop.set()

    def is_new(self, candidate: ReducedCase) -> bool:
        """Return whether a candidate is valid and is not the current program. This
        compiles nothing.
        """
        if candidate.program.canonical is None:
            return False
        return _key(candidate) != _key(self.current)

    def run(self, step: Pass) -> None:
        """Run one pass; again with the complete test if its result is not confirmed."""
        before = self.current
        step(self)
        if self.current is not before and not self.test.is_confirmed(self.current):
            self._answers.clear()
            self._set_current(before)
            step(self)

    def delete(
        self,
        items: Sequence[T],
        without: Callable[[Sequence[T]], ReducedCase | None],
    ) -> None:
        """Drop items until none of the rest can be dropped alone: all of them, then
        halves, quarters, ... single ones.

        Args:
            items: What the current program can do without.
            without: Makes the current program without some of the items, or None.
        """
        left, size = list(range(len(items))), len(items)

        def keeping(indices: Sequence[int]) -> ReducedCase | None:
            dropped = set(range(len(items))).difference(indices)
            return without([items[index] for index in sorted(dropped)])

        while left:
            before, start = len(left), 0
            while start < len(left):
                remainders = (
                    [*left[:at], *left[at + size :]]
                    for at in range(start, len(left), size)
                )
                taken = self.take_first(map(keeping, remainders))
                if taken is None:
                    break
                start += taken * size
                del left[start : start + size]
            if size == 1 and len(left) == before:
                break
            size = max(1, min(size // 2, len(left)))

    def change(self, changes: Callable[[ReducedCase], Iterable[ReducedCase]]) -> None:
        """Make one change after another as long as one is interesting.

        `changes` yields the programs that differ by one change, in a stable order.
        After a change, the search continues at the same position of the new program's
        changes.
        """
        position, taken = 0, self.take_first(changes(self.current))
        while taken is not None:
            position += taken
            later = islice(changes(self.current), position, None)
            taken = self.take_first(later)

    def _set_current(self, candidate: ReducedCase) -> None:
        self.current = candidate
        # what a pass proposes again changes nothing, or goes back
        self._answers[_key(self.test.ready(candidate))] = False

    def _ask(self, candidate: ReducedCase | None, stop: threading.Event) -> bool | None:
        """Return whether a candidate is interesting; None if it is not valid. Equal
        programs with equal settings are tested once.
        """
        if candidate is None or candidate.program.canonical is None:
            return None
        ready = self.test.ready(candidate)
        if ready is None:
            return None
        key = _key(ready)
        if key not in self._answers:
            self._answers[key] = self.test.is_interesting(ready, stop)
        return self._answers[key]


def _key(candidate: ReducedCase | None) -> str:
    """Return a key that is equal for programs and settings that compile alike."""
    if candidate is None:
        return ""
    content = candidate.program.canonical or b""
    return sha256(content + repr(candidate.case).encode()).hexdigest()


Pass = Callable[[ReductionProblem], None]


@dataclass(frozen=True, slots=True)
class Form:
    """How programs of one form are read, and the passes that make them smaller."""

    open: Callable[[], Iterable[Reducible]]
    """Yields the programs to start from, the cheapest first, each read on demand.
    Raises UnreadableError.
    """
    passes: Sequence[Pass]
    """Run in this order until none of them makes the program smaller."""
    final_passes: Sequence[Pass]
    """Run once at the end, because they remove nothing themselves."""
    first_passes: Sequence[Pass] = ()
    """Run once before all others."""
