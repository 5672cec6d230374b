"""The searches of passes and the parallel interestingness test, compared with brute force."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import Interrupted
from triage.reduce.draft import Draft, minimise
from triage.reduce.frontends.text import TextDocument
from triage.reduce.interestingness import ParallelFirstMatch

CASE = Case("r", "r", "", "iree", Path("r"), Input(Path("i"), InputKind.MLIR), Target("llvm-cpu"))


def draft(items: Sequence[object]) -> Draft:
    return Draft(TextDocument([str(item) for item in items], InputKind.OTHER, "other"), CASE)


def left_in(candidate: Draft) -> list[int]:
    assert isinstance(candidate.document, TextDocument)
    return sorted(map(int, candidate.document.lines))


class ContainsTest:
    """A test for drafts that have all of some items; counts what it was asked."""

    def __init__(self, wanted: Iterable[int]) -> None:
        self.wanted = {str(item) for item in wanted}
        self.asked = 0

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        for candidate in drafts:
            self.asked += 1
            assert isinstance(candidate.document, TextDocument)
            if self.wanted <= set(candidate.document.lines):
                return candidate
        return None

    def is_valid(self, draft: Draft) -> bool:
        return True


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=8))), st.booleans())
def test_minimise_keeps_exactly_the_needed_items(given_: tuple[int, set[int]], whole: bool) -> None:
    count, wanted = given_
    test = ContainsTest(wanted)
    original = draft(range(count))
    smallest = minimise(original, range(count), draft, test, whole=whole)
    assert left_in(smallest) == sorted(wanted)
    assert (smallest is original) == (len(wanted) == count)


def test_one_needed_item_of_a_thousand_takes_few_questions() -> None:
    test = ContainsTest({617})
    assert left_in(minimise(draft(range(1000)), range(1000), draft, test)) == [617]
    assert test.asked <= 45


def test_links_that_are_all_needed_are_not_tried_one_by_one() -> None:
    test = ContainsTest(range(400))
    original = draft(range(400))
    assert minimise(original, range(400), draft, test, kind_of=lambda item: item >= 0) is original
    assert test.asked <= 40


def test_items_of_a_kind_are_dropped_together() -> None:
    test = ContainsTest(range(1, 200, 2))
    smallest = minimise(draft(range(200)), range(200), draft, test, kind_of=lambda item: item % 2)
    assert left_in(smallest) == list(range(1, 200, 2))
    assert test.asked <= 40


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_first_in_order_wins_whichever_compile_ends_first(answers: list[bool], jobs: int, luck: random.Random) -> None:
    waits = [luck.random() / 200 for _ in answers]

    def ask(candidate: Draft, cancelled: threading.Event) -> bool:
        index = int(candidate.document.content)
        if cancelled.wait(waits[index]):
            raise Interrupted("stopped")
        return answers[index]

    parallel = ParallelFirstMatch(ask, jobs)
    try:
        found = parallel.first(draft([index]) for index in range(len(answers)))
    finally:
        parallel.close()
    expected = answers.index(True) if True in answers else None
    assert (None if found is None else int(found.document.content)) == expected


def test_a_match_cancels_the_later_compiles() -> None:
    ended = threading.Event()

    def ask(candidate: Draft, cancelled: threading.Event) -> bool:
        if candidate.document.content == b"0\n":
            time.sleep(0.05)
            return True
        ended.set() if cancelled.wait(30) else None
        raise Interrupted("stopped")

    parallel = ParallelFirstMatch(ask, 2)
    assert parallel.first([draft([0]), draft([1])]) is not None
    parallel.close()
    assert ended.is_set()


def test_an_error_of_one_ends_the_search() -> None:
    def ask(candidate: Draft, cancelled: threading.Event) -> bool:
        raise Interrupted("stopped")

    parallel = ParallelFirstMatch(ask, 2)
    with pytest.raises(Interrupted):
        parallel.first([draft([0]), draft([1])])
    parallel.close()


def test_ctrl_c_ends_every_compile_under_way() -> None:
    ended: list[bytes] = []

    def ask(candidate: Draft, cancelled: threading.Event) -> bool:
        if cancelled.wait(20):
            ended.append(candidate.document.content)
            raise Interrupted("stopped")
        return True

    parallel = ParallelFirstMatch(ask, 2)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        parallel.first([draft([0]), draft([1])])
    parallel.close()
    assert sorted(ended) == [b"0\n", b"1\n"]
