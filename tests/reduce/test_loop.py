"""Passes one after another, with a bad and a good toolchain that are asked as little as may be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tests.reduce.test_search import draft
from triage.model.progress import Task
from triage.reduce.draft import Document, Draft, InterestingnessTest, ReductionPass, minimise
from triage.reduce.fixpoint import reduce_to_fixpoint
from triage.reduce.frontends.text import TextDocument
from triage.reduce.interestingness import ReductionTest, Trail
from triage.reduce.oracle import Oracle, Tally


class Quiet:
    def describe(self, text: str) -> None: ...
    def advance(self) -> None: ...


class Asked:
    """An oracle over lines. fails: on the bad toolchain; good: what the good one compiles; what each was asked is kept."""

    def __init__(self, fails: Callable[[set[int]], bool], good: Callable[[set[int]], bool], seconds: float = 0.0) -> None:
        self.bad, self.good = object(), object()
        self.tally = Tally()
        self.of_bad: list[bytes] = []
        self.of_good: list[bytes] = []
        self._fails, self._good, self._seconds = fails, good, seconds

    def fails(self, one: Draft, cancelled: threading.Event) -> bool:
        self.of_bad.append(one.document.content)
        time.sleep(self._seconds)
        return self._fails(items_of(one))

    def compiles(self, one: Draft, cancelled: threading.Event) -> bool:
        self.of_good.append(one.document.content)
        return self._good(items_of(one))


def items_of(one: Draft) -> set[int]:
    assert isinstance(one.document, TextDocument)
    return {int(line) for line in one.document.lines}


def drop(one: Draft, test: InterestingnessTest) -> Draft:
    return minimise(one, sorted(items_of(one)), draft, test)


def reduction(asked: Asked, kept: list[Draft], jobs: int = 1) -> ReductionTest:
    def valid(document: Document) -> bytes | None:
        return document.content

    return ReductionTest(cast("Oracle", asked), valid, kept.append, jobs, cast("Task", Quiet()))


@given(st.sets(st.integers(0, 39), min_size=1, max_size=6), st.sets(st.integers(0, 39), max_size=6), st.integers(1, 2))
def test_what_is_left_fails_and_the_good_toolchain_compiles_it(wanted: set[int], needed: set[int], jobs: int) -> None:
    asked = Asked(lambda items: wanted <= items, lambda items: needed <= items)
    kept: list[Draft] = []
    under_way = reduction(asked, kept, jobs)
    found = reduce_to_fixpoint(draft(range(40)), [ReductionPass("drop", drop)], under_way)
    under_way.close()
    assert items_of(found) == wanted | needed
    assert all(needed <= items_of(one) for one in kept)  # only these may be gone on from another day


def test_a_pass_goes_on_from_its_last_step_that_the_good_toolchain_compiles() -> None:
    count = 1 << 12
    asked = Asked(lambda items: 0 in items, lambda items: len(items) >= 4)
    under_way = reduction(asked, [])
    found = reduce_to_fixpoint(draft(range(count)), [ReductionPass("drop", drop)], under_way)
    under_way.close()
    assert len(items_of(found)) == 4
    assert 0 in items_of(found)
    # Halving towards the step is cheap, and the halves before it are not asked about a second time.
    large = [content for content in asked.of_good if content.count(b"\n") > count // 16]
    assert len(large) <= 2


def test_of_a_long_pass_a_few_steps_are_kept() -> None:
    def one_by_one(one: Draft, test: InterestingnessTest) -> Draft:
        while found := test.first([draft(sorted(items_of(one))[1:])]):
            one = found
        return one

    asked = Asked(lambda items: 99 in items, lambda items: len(items) >= 30)
    under_way = reduction(asked, [])
    found = reduce_to_fixpoint(draft(range(100)), [ReductionPass("drop", one_by_one)], under_way)
    under_way.close()
    assert items_of(found) == set(range(70, 100))
    # It goes on from near the last step that compiles: from the beginning 71 are asked about.
    assert len(asked.of_good) < 40


@given(st.integers(0, 300))
def test_a_trail_is_short_and_even(count: int) -> None:
    trail = Trail()
    for number in range(1, count + 1):
        trail.add(draft([number]))
    kept = [0, *(max(items_of(one)) for one in trail.drafts), count]
    gaps = [after - before for before, after in pairwise(kept)]
    assert len(trail.drafts) <= Trail.most
    assert max(gaps, default=0) <= max(1, 2 * count // Trail.most)


def test_two_ways_to_one_program_are_one_question() -> None:
    asked = Asked(lambda items: False, lambda items: True, seconds=0.1)
    under_way = reduction(asked, [], jobs=4)
    assert under_way.first([draft([1, 2]), draft([1, 2]), draft([1, 2]), draft([3])]) is None
    under_way.close()
    assert sorted(asked.of_bad) == [b"1\n2\n", b"3\n"]
