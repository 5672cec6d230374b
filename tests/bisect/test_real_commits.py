"""The small form of `benchmarks.real_commits`."""

from __future__ import annotations

import pytest

from benchmarks import real_commits


@pytest.mark.slow
def test_fixes_of_a_small_history_are_found() -> None:
    ratios = list(real_commits.ratios(count=1))
    assert {ratio.unit for ratio in ratios} == {"builds", "rounds", "seconds"}
    for ratio in ratios:
        assert "1 exact, git 1" in ratio.what
        if ratio.unit == "builds":
            assert ratio.ours <= ratio.theirs + 4  # both ends, and two jobs at once
