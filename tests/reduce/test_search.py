"""The searches of passes and the parallel interestingness test, compared with brute
force.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reduce.made import CASE, FakeTest
from triage.model.errors import Interrupted
from triage.reduce.frontends.text import TextProgram
from triage.reduce.problem import ReducedCase, ReductionProblem

Answer = Callable[[set[int], threading.Event], bool]


def draft(items: Sequence[object]) -> ReducedCase:
    lines = [str(item) for item in items]
    return ReducedCase(TextProgram(lines, "other"), CASE)


def left_in(candidate: ReducedCase) -> list[int]:
    assert isinstance(candidate.program, TextProgram)
    return sorted(map(int, candidate.program.lines))


class NumbersTest(FakeTest):
    """A test over lines of numbers. good: the answer of the complete test."""

    def __init__(
        self, answer: Answer, good: Callable[[set[int]], bool] = lambda _: True
    ) -> None:
        self.answer, self.good = answer, good
        self.asked = 0
        self.tests_good = False

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        self.asked += 1
        items = set(left_in(candidate))
        return self.answer(items, stop) and (not self.tests_good or self.good(items))

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        confirmed = self.good(set(left_in(candidate)))
        self.tests_good = self.tests_good or not confirmed
        return confirmed


def drop(problem: ReductionProblem) -> None:
    items = left_in(problem.current)
    problem.delete(
        items, lambda dropped: draft([item for item in items if item not in dropped])
    )


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(
            st.just(n), st.sets(st.integers(0, n - 1), min_size=1, max_size=8)
        )
    )
)
def test_exactly_the_needed_items_are_left(given_: tuple[int, set[int]]) -> None:
    count, wanted = given_
    problem = ReductionProblem(
        draft(range(count)), NumbersTest(lambda items, _: wanted <= items)
    )
    drop(problem)
    assert left_in(problem.current) == sorted(wanted)


def test_a_pass_that_keeps_nothing_ends() -> None:
    asked = NumbersTest(lambda items, _: len(items) == 1000)
    drop(ReductionProblem(draft(range(1000)), asked))
    assert asked.asked < 400


def first(answer: Answer, count: int, jobs: int = 2) -> int | None:
    """Which of some candidates wins."""
    problem = ReductionProblem(draft([999]), NumbersTest(answer), jobs)
    return problem.take_first(draft([number]) for number in range(count))


def test_ctrl_c_ends_every_compile_under_way() -> None:
    ended = threading.Semaphore(0)
    begun = threading.Barrier(2, action=lambda: os.kill(os.getpid(), signal.SIGINT))

    def answer(_: set[int], stop: threading.Event) -> bool:
        begun.wait(20)
        if stop.wait(20):
            ended.release()
            raise Interrupted("stopped")
        return True

    with pytest.raises(KeyboardInterrupt):
        first(answer, 2)
    # A thread that starts while Ctrl-C arrives is not known to its pool, which does not
    # wait for it.
    assert ended.acquire(timeout=20)
    assert ended.acquire(timeout=20)


@given(
    st.sets(st.integers(0, 39), min_size=1, max_size=6),
    st.sets(st.integers(0, 39), max_size=6),
    st.integers(1, 2),
)
@settings(deadline=None)
def test_the_result_fails_and_the_good_toolchain_compiles_it(
    wanted: set[int], needed: set[int], jobs: int
) -> None:
    asked = NumbersTest(lambda items, _: wanted <= items, lambda items: needed <= items)
    problem = ReductionProblem(draft(range(40)), asked, jobs)
    problem.run(drop)
    problem.run(drop)
    assert set(left_in(problem.current)) == wanted | needed


@settings(max_examples=20, deadline=None)
@given(
    st.sets(st.integers(0, 59), min_size=1, max_size=25),
    st.randoms(use_true_random=False),
)
def test_the_result_does_not_depend_on_the_number_of_jobs(
    wanted: set[int], luck: random.Random
) -> None:
    def fails(items: set[int], _: threading.Event) -> bool:
        threading.Event().wait(luck.random() / 2000)
        return wanted <= items

    def left(jobs: int) -> list[int]:
        problem = ReductionProblem(draft(range(60)), NumbersTest(fails), jobs)
        drop(problem)
        return left_in(problem.current)

    assert left(1) == left(4)
