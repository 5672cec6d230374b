"""The progress of a reduction."""

from __future__ import annotations

import time

from triage.reduce.fixpoint import PassTimer


def test_the_remaining_time_is_estimated_from_the_second_round_on() -> None:
    timer = PassTimer(["cut", "shrink"])
    assert timer.describe("cut", changed=False) == "cut (1 of 2, round 1)"
    with timer.timed("cut"):
        time.sleep(0.6)
    assert timer.describe("shrink", changed=True) == "shrink (2 of 2, round 1)"
    with timer.timed("shrink"):
        pass
    timer.next_round()
    assert timer.describe("cut", changed=False) == "cut (1 of 2, round 2, at most about 1 s left)"
    with timer.timed("cut"):
        pass
    assert timer.describe("shrink", changed=False) == "shrink (2 of 2, round 2, at most about 0 s left)"
