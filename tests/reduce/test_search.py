"""The searches of passes and the parallel interestingness test, compared with brute
force.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reduce.made import CASE, FakeTest
from triage.model.errors import Interrupted
from triage.processes.process import StopSignal
from triage.reduce.problem import Program, ReductionProblem
from triage.reduce.text import TextProgram, drop_lines

Answer = Callable[[set[int]], bool]
NUMBERS = st.sets(st.integers(0, 59), min_size=1, max_size=8)


def numbers(items: Iterable[int]) -> TextProgram:
    """A program with a number in each line."""
    return TextProgram(CASE, list(map(str, items)))


def of_numbers(fails: Answer, passes: Answer = lambda _: True) -> FakeTest:
    """Return a test of the numbers that are left."""

    def left_in(candidate: Program) -> set[int]:
        return set(map(int, candidate.content.split()))

    return FakeTest(
        lambda candidate: fails(left_in(candidate)),
        lambda candidate: passes(left_in(candidate)),
    )


def left(test: FakeTest, jobs: int = 1, size: int = 60) -> set[int]:
    """Reduce the numbers below `size`."""
    problem = ReductionProblem(numbers(range(size)), test, jobs)
    problem.run(drop_lines)
    problem.run(drop_lines)
    return set(map(int, problem.current.content.split()))


@settings(max_examples=40)
@given(NUMBERS, st.integers(0, 99), st.randoms(use_true_random=False))
def test_no_item_can_be_left_out_whatever_the_number_of_jobs(
    wanted: set[int], seed: int, luck: random.Random
) -> None:
    """Whether a program fails has no order, and the threads answer in any order."""

    def fails(items: set[int]) -> bool:
        threading.Event().wait(luck.random() / 2000)
        return wanted <= items and (hash((seed, *sorted(items))) % 4 > 0)

    small = left(of_numbers(fails))
    assert left(of_numbers(fails), jobs=4) == small
    for item in small:
        assert not fails(small - {item})


def test_a_pass_that_keeps_nothing_ends() -> None:
    test = of_numbers(lambda items: len(items) == 1000)
    assert len(left(test, size=1000)) == 1000
    assert test.asked < 400


@given(NUMBERS, NUMBERS, st.integers(1, 2))
def test_the_result_fails_and_the_good_toolchain_compiles_it(
    wanted: set[int], needed: set[int], jobs: int
) -> None:
    test = of_numbers(lambda items: wanted <= items, lambda items: needed <= items)
    assert left(test, jobs) == wanted | needed


class WaitingTest(FakeTest):
    """Two compiles that end only when they are stopped, after Ctrl-C."""

    def __init__(self) -> None:
        self.ended = threading.Semaphore(0)
        self.begun = threading.Barrier(2, lambda: os.kill(os.getpid(), signal.SIGINT))

    def is_interesting(
        self,
        candidate: Program,
        stop: StopSignal | None = None,
        *,
        in_full: bool = False,
    ) -> bool:
        self.begun.wait(20)
        assert isinstance(stop, threading.Event)
        if stop.wait(20):
            self.ended.release()
            raise Interrupted("stopped")
        return True


def test_ctrl_c_ends_every_compile_under_way() -> None:
    test = WaitingTest()
    problem = ReductionProblem(numbers([999]), test, jobs=2)
    with pytest.raises(KeyboardInterrupt):
        problem.take_first(numbers([number]) for number in range(2))
    # A thread that starts while Ctrl-C arrives is not known to its pool, which does not
    # wait for it.
    for _ in range(2):
        assert test.ended.acquire(timeout=20)
