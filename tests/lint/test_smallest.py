"""The smallest limit with which a solver converges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.lint.check import smallest


@given(truth=st.integers(1, 5000), guess=st.integers(1, 4999))
def test_the_smallest_is_found_from_any_guess(truth: int, guess: int) -> None:
    asked: list[int] = []

    def works(number: int) -> bool:
        asked.append(number)
        return number >= truth

    assert smallest(works, 0, 5000, guess) == truth
    assert len(set(asked)) == len(asked) <= 20
    assert all(0 < number < 5000 for number in asked)
