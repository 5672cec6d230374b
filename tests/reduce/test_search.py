"""The searches of passes and the parallel interestingness test, compared with brute
force.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import Interrupted
from triage.model.progress import Progress
from triage.model.revision import Toolchain
from triage.reduce.engine import minimise, reduce
from triage.reduce.frontends.text import TextProgram
from triage.reduce.interestingness import InterestingnessTest, Oracle
from triage.reduce.program import ReducedCase

CASE = Case(
    "r",
    "r",
    "",
    "iree",
    Path("r"),
    Input(Path("i"), InputKind.MLIR),
    Target("llvm-cpu"),
)


def draft(items: Sequence[object]) -> ReducedCase:
    return ReducedCase(
        TextProgram([str(item) for item in items], InputKind.OTHER, "other"), CASE
    )


def left_in(candidate: ReducedCase) -> list[int]:
    assert isinstance(candidate.program, TextProgram)
    return sorted(map(int, candidate.program.lines))


class ContainsTest(InterestingnessTest):
    """A test for drafts that have all of some items; counts what it was asked."""

    def __init__(self, wanted: Iterable[int]) -> None:
        self.wanted = {str(item) for item in wanted}
        self.asked = 0

    def first(self, candidates: Iterable[ReducedCase]) -> ReducedCase | None:
        for candidate in candidates:
            self.asked += 1
            assert isinstance(candidate.program, TextProgram)
            if self.wanted <= set(candidate.program.lines):
                return candidate
        return None

    def is_valid_change(self, candidate: ReducedCase) -> bool:
        return True


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=8))
    ),
    st.booleans(),
)
def test_minimise_keeps_exactly_the_needed_items(
    given_: tuple[int, set[int]], whole: bool
) -> None:
    count, wanted = given_
    test = ContainsTest(wanted)
    original = draft(range(count))
    smallest = minimise(original, range(count), draft, test, whole=whole)
    assert left_in(smallest) == sorted(wanted)
    assert (smallest is original) == (len(wanted) == count)
    assert test.asked == 1 or wanted or not whole


class FakeOracle(Oracle):
    """Answers as a function does. There is no good toolchain."""

    def __init__(self, answer: Callable[[int, threading.Event], bool]) -> None:
        self.good, self.calls, self.cached, self.answer = None, 0, 0, answer

    def fails(self, candidate: ReducedCase, cancelled: threading.Event) -> bool:
        return self.answer(int(candidate.program.content), cancelled)


def first(
    answer: Callable[[int, threading.Event], bool], count: int, jobs: int = 2
) -> int | None:
    """Which of some candidates wins."""
    task = Progress().task("reduce")
    test = InterestingnessTest(FakeOracle(answer), lambda _: None, jobs, task)
    try:
        found = test.first(draft([number]) for number in range(count))
    finally:
        test.close()
    return None if found is None else int(found.program.content)


@given(
    st.lists(st.booleans(), max_size=12),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_the_first_in_order_wins_whichever_compile_ends_first(
    answers: list[bool], jobs: int, luck: random.Random
) -> None:
    waits = [luck.random() / 200 for _ in answers]

    def answer(number: int, cancelled: threading.Event) -> bool:
        if cancelled.wait(waits[number]):
            raise Interrupted("stopped")
        return answers[number]

    assert first(answer, len(answers), jobs) == (
        answers.index(True) if True in answers else None
    )


def test_a_match_cancels_the_later_compiles() -> None:
    begun, ended = threading.Event(), threading.Event()

    def answer(number: int, cancelled: threading.Event) -> bool:
        if number == 0:
            return begun.wait(30)
        begun.set()
        ended.set() if cancelled.wait(30) else None
        raise Interrupted("stopped")

    assert first(answer, 2) == 0
    assert ended.is_set()


def test_ctrl_c_ends_every_compile_under_way() -> None:
    ended = threading.Semaphore(0)
    begun = threading.Barrier(2, action=lambda: os.kill(os.getpid(), signal.SIGINT))

    def answer(number: int, cancelled: threading.Event) -> bool:
        begun.wait(20)
        if cancelled.wait(20):
            ended.release()
            raise Interrupted("stopped")
        return True

    with pytest.raises(KeyboardInterrupt):
        first(answer, 2)
    # A thread that starts while Ctrl-C arrives is not known to its pool, which does not
    # wait for it.
    assert ended.acquire(timeout=20)
    assert ended.acquire(timeout=20)


class LinesOracle(Oracle):
    """An oracle over lines. fails, good: the answers of the bad and the good toolchain."""

    def __init__(
        self, fails: Callable[[set[int]], bool], good: Callable[[set[int]], bool]
    ) -> None:
        self.good, self.calls, self.cached = cast("Toolchain", object()), 0, 0
        self._fails, self._good = fails, good

    def fails(self, candidate: ReducedCase, cancelled: threading.Event) -> bool:
        return self._fails(set(left_in(candidate)))

    def is_confirmed(self, candidate: ReducedCase, cancelled: threading.Event) -> bool:
        return self._good(set(left_in(candidate)))


def drop(candidate: ReducedCase, test: InterestingnessTest, /) -> ReducedCase:
    return minimise(candidate, left_in(candidate), draft, test)


@given(
    st.sets(st.integers(0, 39), min_size=1, max_size=6),
    st.sets(st.integers(0, 39), max_size=6),
    st.integers(1, 2),
)
def test_the_result_fails_and_the_good_toolchain_compiles_it(
    wanted: set[int], needed: set[int], jobs: int
) -> None:
    kept: list[ReducedCase] = []
    asked = LinesOracle(lambda items: wanted <= items, lambda items: needed <= items)
    under_way = InterestingnessTest(asked, kept.append, jobs, Progress().task("reduce"))
    found = reduce(draft(range(40)), under_way, [drop])
    under_way.close()
    assert set(left_in(found)) == wanted | needed
    # only these may be resumed
    assert all(needed <= set(left_in(candidate)) for candidate in kept)


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.integers(0, 59), min_size=1, max_size=25),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_the_result_does_not_depend_on_the_number_of_jobs(
    wanted: set[int], kinds: int, luck: random.Random
) -> None:
    """Items of few kinds, of which many are needed, and answers that come late."""

    def fails(items: set[int]) -> bool:
        threading.Event().wait(luck.random() / 2000)
        return wanted <= items

    def left(jobs: int) -> tuple[list[int], list[list[int]]]:
        best: list[list[int]] = []
        asked = LinesOracle(fails, lambda _: True)
        asked.good = None
        task = Progress().task("reduce")
        test = InterestingnessTest(
            asked, lambda candidate: best.append(left_in(candidate)), jobs, task
        )
        try:
            smallest = minimise(
                draft(range(60)),
                list(range(60)),
                draft,
                test,
                kind_of=lambda item: item % kinds,
            )
        finally:
            test.close()
        return left_in(smallest), best

    assert left(1) == left(4)
