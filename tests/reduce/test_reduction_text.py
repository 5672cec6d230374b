"""The reports of a reduction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reduce.made import CASE, reproducer
from triage.reduce.result import Reduction
from triage.report.reduction import ReductionReport
from triage.report.registry import rendered
from triage.report.reproducer import reproducer_files


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_a_report_shows_the_program_the_span_and_the_cost(name: str) -> None:
    made = reproducer()
    lines = "".join(f"// line {number}\n" for number in range(100))
    report = ReductionReport(replace(made.reduction, program=lines, reproducer="out/attention-dtype-f16"), made)
    said = rendered(report, name)
    for words in (
        "3 operations",
        "// line 39",
        "60 more lines",
        "last good 3.0.0, first bad 3.2.0 (3.1.0 could not be tested)",
    ):
        assert words in said, words
    assert "// line 40" not in said
    assert "44 compiles" in said


def test_the_github_format_is_the_issue_of_the_folder() -> None:
    made = reproducer()
    assert rendered(ReductionReport(made.reduction, made), "github") == reproducer_files(made)["issue.md"]
    assert "it compiles" in rendered(ReductionReport(Reduction(CASE, "it compiles")), "github")
