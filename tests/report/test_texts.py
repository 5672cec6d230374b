"""Times and shares as reports word them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from triage.recipes.values import duration_text, rounded_text, share_text, time_text


@given(st.floats(0, 1e9))
def test_no_time_or_number_has_an_exponent(seconds: float) -> None:
    texts = time_text(seconds), duration_text(seconds), rounded_text(1 + seconds)
    assert not re.search(r"\de[+-]?\d", " ".join(texts))
    value, unit = texts[0].split()
    assert unit == "s" or float(value) < 1000


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.sampled_from([0, 1, 2]))
def test_a_share_is_all_or_none_only_if_it_is(
    part: int, rest: int, digits: int
) -> None:
    whole = part + rest
    assert float(share_text(part / whole, digits).removesuffix("%")) < 100
    assert float(share_text(rest / whole, digits).removesuffix("%")) > 0
    assert float(share_text(1.0, digits).removesuffix("%")) == 100
    assert float(share_text(0.0, digits).removesuffix("%")) == 0
