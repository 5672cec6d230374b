"""Times and shares as reports word them."""

from __future__ import annotations

from dataclasses import replace

from tests.nights.documents import FAILURES, case_result, night
from triage.investigate.result import ClusterKey
from triage.report.issue import issue_markdown


def test_only_a_new_failure_is_said_to_pass_on_the_baseline() -> None:
    """A list of nights keeps no cases of known failures."""
    cluster = ClusterKey("iree", "llvm-cpu", "legalize:x").cluster(["a"], FAILURES["F"])
    known, new = case_result("a", "X", "X"), case_result("a", "F")
    for cases, passes in (([], False), ([known], False), ([new], True)):
        text = issue_markdown(cluster, replace(night(1, {}), cases=cases))
        assert ("It passes with" in text) is passes
