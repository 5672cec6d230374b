"""The pass where released compilers diverge, on recipes whose change is known from the
compiler's history.
"""

from __future__ import annotations

import pytest

from tests.conftest import ROOT, Asked

pytestmark = pytest.mark.real
WORDS = ("attribute", ROOT / "recipes/sharded-updates-short.yaml")


def test_equal_ir_up_to_the_pass_that_fails(asked: Asked) -> None:
    attribution = asked(*WORDS, "--good", "3.1.0", "--bad", "3.2.0")
    assert attribution["status"] == "failing-pass"
    assert attribution["suspect_passes"] == ["ScheduleExecutionPass"]
    assert attribution["first_phase"] is None


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [("3.2.0", "3.3.0", "same failure"), ("3.2.0", "3.1.0", "--good")],
)
def test_runs_that_cannot_be_compared_are_inconclusive(
    asked: Asked, good: str, bad: str, reason: str
) -> None:
    attribution = asked(*WORDS, "--good", good, "--bad", bad, code=3)
    assert reason in attribution["reason"]
