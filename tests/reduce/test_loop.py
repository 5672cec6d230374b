"""The fixpoint of passes asks the bad and the good toolchain as little as possible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tests.reduce.test_search import draft
from triage.model.progress import Silent
from triage.model.revision import Toolchain
from triage.reduce.engine import minimise, reduce
from triage.reduce.frontends.text import TextDocument
from triage.reduce.interestingness import InterestingnessTest, Oracle, Tally
from triage.reduce.program import Candidate, Document


class FakeOracle(Oracle):
    """An oracle over lines that records its questions. fails, good: the answers of the bad and the good toolchain."""

    def __init__(self, fails: Callable[[set[int]], bool], good: Callable[[set[int]], bool], seconds: float = 0.0) -> None:
        self.good = cast("Toolchain", object())
        self.tally = Tally()
        self.of_bad: list[bytes] = []
        self.of_good: list[bytes] = []
        self._answer, self._good_answer, self._seconds = fails, good, seconds

    def fails(self, candidate: Candidate, cancelled: threading.Event) -> bool:
        self.of_bad.append(candidate.document.content)
        time.sleep(self._seconds)
        return self._answer(items_of(candidate))

    def compiles(self, candidate: Candidate, cancelled: threading.Event) -> bool:
        self.of_good.append(candidate.document.content)
        return self._good_answer(items_of(candidate))


def items_of(candidate: Candidate) -> set[int]:
    assert isinstance(candidate.document, TextDocument)
    return {int(line) for line in candidate.document.lines}


def drop(candidate: Candidate, test: InterestingnessTest, /) -> Candidate:
    return minimise(candidate, sorted(items_of(candidate)), draft, test)


def reduction(asked: FakeOracle, kept: list[Candidate], jobs: int = 1) -> InterestingnessTest:
    def valid(document: Document) -> bytes | None:
        return document.content

    return InterestingnessTest(asked, valid, kept.append, jobs, Silent().task("reduce"))


@given(st.sets(st.integers(0, 39), min_size=1, max_size=6), st.sets(st.integers(0, 39), max_size=6), st.integers(1, 2))
def test_the_result_fails_and_the_good_toolchain_compiles_it(wanted: set[int], needed: set[int], jobs: int) -> None:
    asked = FakeOracle(lambda items: wanted <= items, lambda items: needed <= items)
    kept: list[Candidate] = []
    under_way = reduction(asked, kept, jobs)
    found = reduce(draft(range(40)), under_way, [drop])
    under_way.close()
    assert items_of(found) == wanted | needed
    assert all(needed <= items_of(candidate) for candidate in kept)  # only these may be resumed


def test_equal_programs_are_compiled_once() -> None:
    asked = FakeOracle(lambda items: False, lambda items: True, seconds=0.1)
    under_way = reduction(asked, [], jobs=4)
    assert under_way.first([draft([1, 2]), draft([1, 2]), draft([1, 2]), draft([3])]) is None
    under_way.close()
    assert sorted(asked.of_bad) == [b"1\n2\n", b"3\n"]
