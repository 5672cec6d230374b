"""Slower runs: measured in turn, reported with an interval, and no failure
unless that is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import release_refs
from tests.nights.documents import night as night_of
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.in_turn import Pace, Ratio
from triage.nightly.result import Night, TimeChange
from triage.report.night import night_junit


@pytest.fixture
def night() -> Night:
    ends = [ref.revision for ref in release_refs(2)]
    origin = Bisection("a", BisectKind.REGRESSION, Answer.SUSPECTS, *ends)
    slower = TimeChange(
        case="a",
        function="decode",
        baseline_seconds=0.002,
        seconds=0.004,
        ratio=Ratio(2.0, 1.9, 2.1),
        verdict=Pace.SLOWER,
        bisection=origin,
    )
    reason = "1.2.0: this machine has no device hip"
    missing = TimeChange(case="b", function="decode", reason=reason)
    return night_of(1, {"a": "P"}, times=[slower, missing])


@pytest.mark.parametrize(("asked", "tests"), [(False, 1), (True, 2)])
def test_junit_fails_what_is_slower_only_where_asked(
    night: Night, asked: bool, tests: int
) -> None:
    suite = ElementTree.fromstring(night_junit(replace(night, strict=asked)))
    assert len(list(suite.iter("testcase"))) == tests
    assert len(list(suite.iter("failure"))) == tests - 1
