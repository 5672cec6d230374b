"""Times and shares as reports word them."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.nights.documents import FAILURES, case_result, night
from triage.investigate.result import ClusterKey
from triage.recipes.values import duration_text, rounded_text, share_text, time_text
from triage.report.issue import issue_markdown


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


def test_only_a_new_failure_is_said_to_pass_on_the_baseline() -> None:
    """A list of nights keeps no cases of known failures."""
    cluster = ClusterKey("iree", "llvm-cpu", "legalize:x").cluster(["a"], FAILURES["F"])
    known, new = case_result("a", "X", "X"), case_result("a", "F")
    for cases, passes in (([], False), ([known], False), ([new], True)):
        text = issue_markdown(cluster, replace(night(1, {}), cases=cases))
        assert ("It passes with" in text) is passes
