"""What is said of a reduction's way while it is under way."""

from __future__ import annotations

import time

from triage.reduce.fixpoint import Pace


def test_the_first_round_only_says_where_it_is_and_later_ones_what_is_left() -> None:
    pace = Pace(["cut", "shrink"])
    assert pace.where("cut", changed=False) == "cut (1 of 2, round 1)"
    with pace.timed("cut"):
        time.sleep(0.6)
    assert pace.where("shrink", changed=True) == "shrink (2 of 2, round 1)"
    with pace.timed("shrink"):
        pass
    pace.next_round()
    assert pace.where("cut", changed=False) == "cut (1 of 2, round 2, at most about 1 s left)"
    with pace.timed("cut"):
        pass
    assert pace.where("shrink", changed=False) == "shrink (2 of 2, round 2, at most about 0 s left)"
