"""Make a program smaller while it stays interesting.

The key insight: a pass only proposes smaller programs, and one test decides. So a pass
may be wrong. What it proposes need not compile, verify or mean the same: the test
compiles it, and the problem keeps it only if it fails as the original does.

A pass is a function from a problem to nothing. It offers candidates, and the first one
that is interesting becomes the problem's current program. Passes are built on two
searches: `delete` drops as many items as possible, `change` makes one change after
another. The result does not depend on the number of jobs.

For a new pass: propose large steps first, since a compile costs the same however much
it removes, and leave order and names alone, so that a later pass meets what it knows.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from triage.model.errors import Interrupted
from triage.reduce.program import ReducedCase, Reducible, settings_of

T = TypeVar("T")
MOST_KINDS = 16  # of items to drop kind by kind; among more, halves are faster
_MOST_REFUSED = 3  # chunks of equal kinds that are tried in vain
_PATIENCE = 40  # refused programs in a row, after which a search ends
_SHARE = 5  # a search may end later, after this part of all tests
# a bound against passes that undo each other; more rounds have not been seen to help
_ROUNDS = 8


class Test(Protocol):
    """Decides which programs are interesting."""

    def ready(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with the values that it is run with; None if there are
        none for it.
        """

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        """Return whether a candidate fails as the original does. Raises Interrupted
        when `stop` is set.
        """

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        """Check an interesting candidate with all that `is_interesting` leaves out to
        be fast, such as the good toolchain. If that fails, nothing is left out from now
        on.
        """


@dataclass(slots=True)
class _Asked:
    """A candidate that a thread is asked about."""

    candidate: ReducedCase
    stop: threading.Event = field(default_factory=threading.Event)
    answer: Future[bool | None] | None = None


@dataclass
class ReductionProblem:
    """The smallest interesting program so far, and the test that a smaller one must
    pass.
    """

    current: ReducedCase
    test: Test
    jobs: int = 1
    on_change: Callable[[ReductionProblem], None] = lambda _: None
    """Called when a pass begins, and when the current program changes."""
    activity: str = ""
    """The pass that runs, in words."""
    invalid: int = 0
    """Programs that did not verify and were not tested."""
    _tested: int = 0
    _answers: dict[str, bool] = field(default_factory=dict)
    _asking: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._set_current(self.current)

    @property
    def patience(self) -> int:
        """How many programs in a row a search may try in vain."""
        return max(_PATIENCE, self._tested // _SHARE)

    def take_first(
        self, candidates: Iterable[ReducedCase], patience: int | None = None
    ) -> int | None:
        """Make the first interesting candidate the current program, and return its
        position; None if there is none, or none before `patience` others were refused.

        First means in the order of `candidates`, whichever thread answers first.
        """
        asked: deque[_Asked] = deque()
        source = iter(candidates)
        position = refused = 0
        with ThreadPoolExecutor(self.jobs, "candidate") as pool:
            try:
                while patience is None or refused < patience:
                    for candidate in islice(source, self.jobs - len(asked)):
                        # in the queue before it runs, so that Ctrl-C finds it there
                        asked.append(_Asked(candidate))
                        asked[-1].answer = pool.submit(self._ask, asked[-1])
                    if not asked:
                        return None
                    # in the queue until it is answered, for the same reason
                    oldest = asked[0]
                    assert oldest.answer
                    interesting = oldest.answer.result()
                    asked.popleft()
                    self._tested += interesting is not None
                    self.invalid += interesting is None
                    if interesting:
                        self._set_current(oldest.candidate)
                        return position
                    refused += interesting is not None
                    position += 1
                return None
            finally:
                for one in asked:
                    one.stop.set()
                for one in asked:
                    if one.answer:
                        with suppress(Interrupted):
                            one.answer.result()

    def is_new(self, candidate: ReducedCase) -> bool:
        """Return whether a candidate is valid and is not the current program. This
        compiles nothing.
        """
        is_valid = candidate.program.canonical is not None
        return is_valid and _key(candidate) != _key(self.current)

    def run(self, step: Pass) -> None:
        """Run one pass; again with the complete test if its result is not confirmed."""
        before = self.current
        self.activity = step.__name__.replace("_", " ")
        self.on_change(self)
        step(self)
        if self.current is not before and not self.test.is_confirmed(self.current):
            self._answers.clear()
            self._set_current(before)
            step(self)

    def delete(
        self,
        items: Sequence[T],
        without: Callable[[Sequence[T]], ReducedCase | None],
        *,
        whole: bool = True,
        kind_of: Callable[[T], Hashable] | None = None,
    ) -> None:
        """Drop items until none of the rest can be dropped alone: all of them, then
        halves, quarters, ... single ones.

        Args:
            items: What the current program can do without.
            without: Makes the current program without some of the items, or None.
            whole: Whether to try to drop all items at once.
            kind_of: Groups equal items. Whole groups are dropped first unless there are
                many. After three chunks of equal kinds could not be dropped, the others
                are skipped, because a chain that must be long has hundreds of equal
                links.
        """
        kinds = [kind_of and kind_of(item) for item in items]
        left = list(range(len(items)))

        def drop(groups: Sequence[Sequence[int]]) -> None:
            """Go along groups of items once, and drop each that can be dropped."""
            nonlocal left
            refused: Counter[Hashable] = Counter()
            keys = [tuple(kinds[index] for index in group) for group in groups]
            offered: list[int] = []

            def smaller(position: int) -> Iterator[ReducedCase]:
                # Several jobs try groups before the answers to those in front of them,
                # which are taken to be refused.
                assumed = refused.copy()
                for number in range(position, len(groups)):
                    if kind_of and assumed[keys[number]] >= _MOST_REFUSED:
                        continue
                    kept = set(left).difference(groups[number])
                    dropped = [it for at, it in enumerate(items) if at not in kept]
                    candidate = without(dropped)
                    if candidate is not None:
                        assumed[keys[number]] += 1
                        offered.append(number)
                        yield candidate

            position = 0
            while True:
                taken = self.take_first(smaller(position), self.patience)
                if taken is None:
                    break
                refused.update(keys[number] for number in offered[:taken])
                position = offered[taken] + 1
                refused[keys[position - 1]] = 0
                gone = set(groups[position - 1])
                left = [index for index in left if index not in gone]
                offered.clear()

        if whole and left:
            drop([left])
        if kind_of and left:
            repeated = [kind for kind, count in Counter(kinds).items() if count > 1]
            if len(repeated) <= MOST_KINDS:
                groups = [[i for i in left if kinds[i] == kind] for kind in repeated]
                drop([group for group in groups if group != left])
        size = (len(left) + 1) // 2
        while left:
            before = len(left)
            drop([left[start : start + size] for start in range(0, before, size)])
            if size == 1 and len(left) == before:
                break
            size = max(1, min(size // 2, len(left)))

    def change(self, changes: Callable[[ReducedCase], Iterable[ReducedCase]]) -> None:
        """Make one change after another as long as one is interesting.

        `changes` yields the programs that differ by one change, in a stable order.
        After a change, the search continues at the same position of the new program's
        changes.
        """
        position = 0
        while True:
            later = islice(changes(self.current), position, None)
            taken = self.take_first(later, self.patience)
            if taken is None:
                return
            position += taken

    def _set_current(self, candidate: ReducedCase) -> None:
        self.current = candidate
        # what a pass proposes again changes nothing, or goes back
        self._answers[_key(self.test.ready(candidate))] = False
        self.on_change(self)

    def _ask(self, asked: _Asked) -> bool | None:
        """Return whether a candidate is interesting; None if it is not valid. Equal
        programs with equal settings are tested once.
        """
        if asked.candidate.program.canonical is None:
            return None
        candidate = self.test.ready(asked.candidate)
        if candidate is None:
            return None
        key = _key(candidate)
        with self._lock:
            lock = self._asking.setdefault(key, threading.Lock())
        with lock:  # candidates of equal links of a chain are often the same program
            if key not in self._answers:
                answer = self.test.is_interesting(candidate, asked.stop)
                self._answers[key] = answer
            return self._answers[key]


def _key(candidate: ReducedCase | None) -> str:
    """Return a key that is equal for programs and settings that compile alike."""
    if candidate is None:
        return ""
    settings = repr(settings_of(candidate.case)).encode()
    return sha256((candidate.program.canonical or b"") + settings).hexdigest()


Pass = Callable[[ReductionProblem], None]


@dataclass(frozen=True, slots=True)
class Form:
    """How programs of one form are read, and the passes that make them smaller."""

    open: Callable[[Path], Iterable[Reducible]]
    """Yields the programs to start from, the cheapest first, each read on demand.
    Raises UnreadableError.
    """
    passes: Sequence[Pass]
    """Run in this order until none of them makes the program smaller."""
    final_passes: Sequence[Pass]
    """Run once at the end, because they remove nothing themselves."""
    approach: Callable[[int | None], Pass] | None = None
    """Makes the pass that runs before all others, from the line of the file that the
    compiler's diagnostic points to.
    """
    notes: Sequence[str] = ()
    """How the programs were read and checked. `open` may add to it."""
    name: str = "it"
    """What is compiled: the program as it is, or a form of it."""


def shrink(
    problem: ReductionProblem, passes: Sequence[Pass], final_passes: Sequence[Pass] = ()
) -> None:
    """Run the passes in rounds until a round makes nothing smaller, then the final ones
    once.
    """
    for _ in range(_ROUNDS):
        before = _size(problem.current)
        for step in passes:
            problem.run(step)
        if _size(problem.current) == before:
            break
    for step in final_passes:
        problem.run(step)


def _size(candidate: ReducedCase) -> tuple[object, ...]:
    program, case = candidate.program, candidate.case
    return program.size, len(program.content), len(case.flags), case.spec
