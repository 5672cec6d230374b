"""Make a program smaller while it stays interesting.

The key insight: a pass only proposes smaller programs; one test decides. A pass is a
function from a problem to nothing: it offers candidates to the problem, which keeps the
first one that is interesting as its current program.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

from triage.compilers.base import kernel_of
from triage.mlir.tree import Value
from triage.model.case import Case, InputKind

if TYPE_CHECKING:
    from triage.reduce.interestingness import CompileTest

T = TypeVar("T")
_MAX_REFUSED = 40  # refused programs in a row, after which a search ends


class UnreadableError(Exception):
    """Why a program cannot be read in a form."""


@dataclass(frozen=True)
class Entry:
    """What is run: a function, or a model, which has no name."""

    function: str | None
    arguments: Sequence[Value]
    """With types in MLIR's notation; smaller programs know them by their origins."""


@dataclass(frozen=True, eq=False)
class Program(ABC):
    """A program in a form that passes can change. Passes build new programs and never
    change one in place.
    """

    case: Case
    """What it is compiled under. The case's own input is ignored."""
    suffix = "txt"
    """The suffix of its file, without the dot."""
    unit = "line"
    """What `size` counts: operation, node, statement or line."""

    @property
    @abstractmethod
    def content(self) -> bytes:
        """The bytes that a compiler reads."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many pieces can be removed."""

    @property
    def canonical(self) -> bytes | None:
        """The content, equal for programs that differ only in names; None if the
        program is not valid.
        """
        return self.content or None

    @property
    def readable_content(self) -> bytes:
        """The program as it is shown to readers."""
        return self.content

    @property
    def kind(self) -> InputKind:
        """How the compiler reads it."""
        if self.suffix in (InputKind.MLIR, InputKind.ONNX):
            return InputKind(self.suffix)
        return InputKind.OTHER

    @property
    def key(self) -> str:
        """Equal for programs and settings that compile alike."""
        content = self.canonical or b""
        return sha256(content + repr(self.case).encode()).hexdigest()

    def entry(self, function: str | None) -> Entry | None:  # noqa: ARG002 - some have several
        """Find what is run: the function with this name, else the only public one; None
        without one that has typed arguments.
        """
        return None

    def with_case(self, **changes: Any) -> Self:
        """Return the program with a changed case."""
        return replace(self, case=replace(self.case, **changes))

    @classmethod
    def of(cls, problem: ReductionProblem) -> Self:
        """Return the current program of a problem, which is of this form."""
        assert isinstance(problem.current, cls)
        return problem.current


@dataclass
class ReductionProblem:
    """The smallest interesting program so far, and the test that a smaller one must
    pass.
    """

    current: Program
    test: CompileTest
    jobs: int = 1
    _tests_in_full: bool = False
    """Whether each candidate gets the complete test; else only the result of each pass
    does.
    """
    _answers: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._set_current(self.current)

    def take_first(self, candidates: Iterable[Program | None]) -> int | None:
        """Make the first interesting candidate the current program, and return its
        position; None if there is none, or none before 40 others were refused.

        First means in the order of `candidates`, whichever thread answers first.
        """
        stop = threading.Event()
        refused = 0
        source = iter(candidates)
        asked: deque[tuple[Program | None, Future[bool | None]]] = deque()
        with ThreadPoolExecutor(self.jobs, "candidate") as pool:
            try:
                for position in count():
                    for candidate in islice(source, self.jobs - len(asked)):
                        answer = pool.submit(self._test, candidate, stop)
                        asked.append((candidate, answer))
                    if not asked or refused == _MAX_REFUSED:
                        break
                    candidate, answer = asked.popleft()
                    is_interesting = answer.result()
                    if candidate and is_interesting:
                        self._set_current(candidate)
                        return position
                    refused += is_interesting is not None
                return None
            finally:
                stop.set()

    def is_valid_change(self, candidate: Program) -> bool:
        """Tell whether a candidate is valid and is not the current program. This
        compiles nothing.
        """
        return candidate.canonical is not None and candidate.key != self.current.key

    def run(self, step: Pass) -> None:
        """Run one pass; again, with the complete test, if its result does not pass
        that.
        """
        before = self.current
        step(self)
        if self.current is not before and not self._tests_in_full:
            self._tests_in_full = not self.test.is_interesting(
                self.current, in_full=True
            )
            if self._tests_in_full:
                self._answers.clear()
                self._set_current(before)
                step(self)

    def delete(
        self, items: Sequence[T], without: Callable[[Sequence[T]], Program | None]
    ) -> None:
        """Drop items until none of the rest can be dropped alone: all of them, then
        halves, quarters, ... single ones.

        Args:
            items: What the current program can do without.
            without: Makes the current program without some of the items, or None.
        """
        remaining = list(items)
        dropped = list[T]()
        size = len(items)
        while remaining:
            before = len(remaining)
            start = 0
            while start < len(remaining):
                position = self.take_first(
                    without([*dropped, *remaining[at : at + size]])
                    for at in range(start, len(remaining), size)
                )
                if position is None:
                    break
                start += position * size
                dropped += remaining[start : start + size]
                del remaining[start : start + size]
            if size == 1 and len(remaining) == before:
                break
            size = max(1, min(size // 2, len(remaining)))

    def change(self, changes: Callable[[], Iterable[Program]]) -> None:
        """Make one change after another as long as one is interesting.

        `changes` yields the programs that differ from the current one by one change, in
        a stable order. After a change, the search continues at the same position.
        """
        start = 0
        found_at = self.take_first(changes())
        while found_at is not None:
            start += found_at
            found_at = self.take_first(islice(changes(), start, None))

    def _set_current(self, candidate: Program) -> None:
        self.current = candidate
        # what a pass proposes again changes nothing, or goes back
        self._answers[candidate.key] = False

    def _test(self, candidate: Program | None, stop: threading.Event) -> bool | None:
        """Return whether a candidate is interesting; None if it is not valid. Equal
        programs with equal settings are tested once.
        """
        if candidate is None or candidate.canonical is None:
            return None
        key = candidate.key
        if key not in self._answers:
            self._answers[key] = self.test.is_interesting(
                candidate, stop, in_full=self._tests_in_full
            )
        return self._answers[key]


Pass = Callable[[ReductionProblem], None]


@dataclass(frozen=True)
class Form:
    """How programs of one form are read, and the passes that make them smaller."""

    programs: Iterable[Program]
    """Those to start from, the cheapest first, each read on demand. May raise
    UnreadableError.
    """
    passes: Sequence[Pass]
    """Run in this order until none of them makes the program smaller."""
    final_passes: Sequence[Pass]
    """Run once at the end, because they remove nothing themselves."""
    first_passes: Sequence[Pass] = ()
    """Run once before all others."""


def drop_settings(problem: ReductionProblem) -> None:
    """Drop the flags, the options of a kernel and the hints about its arguments that
    the failure does not need.
    """
    start = problem.current
    case = problem.current.case
    kernel = kernel_of(case)
    items = list[object](case.flags)
    if kernel:
        items += [*kernel.options, *kernel.hints]

    def without(dropped: Sequence[object]) -> Program:
        flags = tuple(flag for flag in case.flags if flag not in dropped)
        spec = case.spec
        if kernel:
            options = without_keys(kernel.options, dropped)
            hints = without_keys(kernel.hints, dropped)
            spec = replace(kernel, options=options, hints=hints)
        return start.with_case(flags=flags, spec=spec)

    problem.delete(items, without)


def without_keys(mapping: Mapping[str, T], dropped: Container[object]) -> dict[str, T]:
    """Leave out some keys."""
    return {key: value for key, value in mapping.items() if key not in dropped}
