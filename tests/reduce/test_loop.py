"""The fixpoint of passes asks the bad and the good toolchain as little as possible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tests.reduce.test_search import draft
from triage.model.progress import Silent
from triage.model.revision import Toolchain
from triage.reduce.draft import Document, Draft, InterestingnessTest, minimise
from triage.reduce.fixpoint import reduce_to_fixpoint
from triage.reduce.frontends.text import TextDocument
from triage.reduce.interestingness import Oracle, ReductionTest, Tally, Trail


class FakeOracle(Oracle):
    """An oracle over lines that records its questions. fails, good: the answers of the bad and the good toolchain."""

    def __init__(self, fails: Callable[[set[int]], bool], good: Callable[[set[int]], bool], seconds: float = 0.0) -> None:
        self.good = cast("Toolchain", object())
        self.tally = Tally()
        self.of_bad: list[bytes] = []
        self.of_good: list[bytes] = []
        self._answer, self._good_answer, self._seconds = fails, good, seconds

    def fails(self, candidate: Draft, cancelled: threading.Event) -> bool:
        self.of_bad.append(candidate.document.content)
        time.sleep(self._seconds)
        return self._answer(items_of(candidate))

    def compiles(self, candidate: Draft, cancelled: threading.Event) -> bool:
        self.of_good.append(candidate.document.content)
        return self._good_answer(items_of(candidate))


def items_of(candidate: Draft) -> set[int]:
    assert isinstance(candidate.document, TextDocument)
    return {int(line) for line in candidate.document.lines}


def drop(candidate: Draft, test: InterestingnessTest, /) -> Draft:
    return minimise(candidate, sorted(items_of(candidate)), draft, test)


def reduction(asked: FakeOracle, kept: list[Draft], jobs: int = 1) -> ReductionTest:
    def valid(document: Document) -> bytes | None:
        return document.content

    return ReductionTest(asked, valid, kept.append, jobs, Silent().task("reduce"))


@given(st.sets(st.integers(0, 39), min_size=1, max_size=6), st.sets(st.integers(0, 39), max_size=6), st.integers(1, 2))
def test_the_result_fails_and_the_good_toolchain_compiles_it(wanted: set[int], needed: set[int], jobs: int) -> None:
    asked = FakeOracle(lambda items: wanted <= items, lambda items: needed <= items)
    kept: list[Draft] = []
    under_way = reduction(asked, kept, jobs)
    found = reduce_to_fixpoint(draft(range(40)), [drop], (), under_way)
    under_way.close()
    assert items_of(found) == wanted | needed
    assert all(needed <= items_of(candidate) for candidate in kept)  # only these may be resumed


def test_a_pass_resumes_from_its_last_draft_that_the_good_toolchain_compiles() -> None:
    count = 1 << 12
    asked = FakeOracle(lambda items: 0 in items, lambda items: len(items) >= 4)
    under_way = reduction(asked, [])
    found = reduce_to_fixpoint(draft(range(count)), [drop], (), under_way)
    under_way.close()
    assert len(items_of(found)) == 4
    assert 0 in items_of(found)
    # Halving towards the step is cheap, and the halves before it are not asked about a second time.
    large = [content for content in asked.of_good if content.count(b"\n") > count // 16]
    assert len(large) <= 2


def test_a_long_pass_resumes_near_its_last_good_step() -> None:
    def one_by_one(candidate: Draft, test: InterestingnessTest) -> Draft:
        while found := test.first([draft(sorted(items_of(candidate))[1:])]):
            candidate = found
        return candidate

    asked = FakeOracle(lambda items: 99 in items, lambda items: len(items) >= 30)
    under_way = reduction(asked, [])
    found = reduce_to_fixpoint(draft(range(100)), [one_by_one], (), under_way)
    under_way.close()
    assert items_of(found) == set(range(70, 100))
    # It goes on from near the last step that compiles: from the beginning 71 are asked about.
    assert len(asked.of_good) < 40


@given(st.integers(0, 300))
def test_a_trail_is_short_and_even(count: int) -> None:
    trail = Trail()
    for number in range(1, count + 1):
        trail.add(draft([number]))
    kept = [0, *(max(items_of(candidate)) for candidate in trail.drafts), count]
    gaps = [after - before for before, after in pairwise(kept)]
    assert len(trail.drafts) <= Trail.most
    assert max(gaps, default=0) <= max(1, 2 * count // Trail.most)


def test_equal_programs_are_compiled_once() -> None:
    asked = FakeOracle(lambda items: False, lambda items: True, seconds=0.1)
    under_way = reduction(asked, [], jobs=4)
    assert under_way.first([draft([1, 2]), draft([1, 2]), draft([1, 2]), draft([3])]) is None
    under_way.close()
    assert sorted(asked.of_bad) == [b"1\n2\n", b"3\n"]
