from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from triage.bisect.search import Search, Side


def run(search: Search, truth: str, count: int) -> tuple[Search, int]:
    """Answer from `truth` (b before, a after, u unknown) until nothing is left to ask; the number of rounds."""
    sides = {"b": Side.BEFORE, "a": Side.AFTER, "u": Side.UNKNOWN}
    rounds = 0
    while chosen := search.next(count):
        assert len(set(chosen)) == len(chosen) <= count
        rounds += 1
        for index in chosen:
            assert index not in search.sides
            search = search.know(index, sides[truth[index]])
    return search, rounds


@given(before=st.integers(1, 300), after=st.integers(1, 300), count=st.integers(1, 8))
def test_a_clean_line_is_solved_in_logarithmic_rounds(before: int, after: int, count: int) -> None:
    truth = "b" * before + "a" * after
    search, rounds = run(Search(0, len(truth) - 1), truth, count)
    assert search.suspects == (before,)
    assert rounds <= math.ceil(math.log(len(truth) - 1, count + 1)) + 1


@given(st.text("bau", max_size=60), st.integers(1, 4))
def test_the_bounds_are_true_neighbours_in_any_history(middle: str, count: int) -> None:
    truth = f"b{middle}a"
    search, _ = run(Search(0, len(truth) - 1), truth, count)
    low, high = search.bounds
    assert (truth[low], truth[high]) == ("b", "a")
    assert set(truth[low + 1 : high]) <= {"u"}
    assert search.suspects == tuple(range(low + 1, high + 1))


@given(st.integers(1, 40), st.integers(0, 10), st.integers(1, 40))
def test_untestable_places_stay_suspects(before: int, unknown: int, after: int) -> None:
    truth = "b" * before + "u" * unknown + "a" * after
    search, _ = run(Search(0, len(truth) - 1), truth, 1)
    assert search.suspects == tuple(range(before, before + unknown + 1))


def test_of_several_changes_the_one_nearest_to_the_end_is_pursued() -> None:
    search = Search(0, 9, {3: Side.AFTER, 5: Side.BEFORE})
    assert search.bounds == (5, 9)
    assert all(5 < index < 9 for index in search.next(2))


def test_answers_may_come_in_any_order() -> None:
    one = Search(0, 9).know(2, Side.BEFORE).know(7, Side.AFTER)
    other = Search(0, 9).know(7, Side.AFTER).know(2, Side.BEFORE)
    assert one.bounds == other.bounds == (2, 7)


def test_adjacent_ends_need_no_question() -> None:
    assert Search(4, 5).next(3) == ()
    assert Search(4, 5).suspects == (5,)
