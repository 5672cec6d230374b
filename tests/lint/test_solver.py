"""The smallest sufficient number is found from any guess; each number is tested at most once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.lint.solver import smallest_sufficient

MOST = 4096


@given(truth=st.integers(1, MOST + 500), guess=st.integers(1, MOST))
def test_the_smallest_is_found_from_any_guess(truth: int, guess: int) -> None:
    asked: list[int] = []

    def enough(number: int) -> bool:
        asked.append(number)
        return number >= truth

    assert smallest_sufficient(enough, guess, MOST) == (truth if truth <= MOST else None)
    assert len(set(asked)) == len(asked)
    assert all(1 <= number <= MOST for number in asked)
