"""The reports of a reduction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reduce.made import CASE, probes, reproducer
from triage.model.json_form import as_json
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


def test_why_nothing_was_reduced_names_what_was_tried() -> None:
    found = Reduction(CASE, "it compiles on 3.4.0; there is nothing to reduce", probes=probes("PUFG"))
    said = rendered(ReductionReport(found), "text")
    assert "not reduced" in said
    assert "there is nothing to reduce" in said
    assert [one["status"] for one in as_json(found)["tried"]] == ["passed", "untestable", "failed", "failed"]
    assert as_json(found)["evidence"] == []


def test_the_github_format_is_the_issue_of_the_folder() -> None:
    made = reproducer()
    assert rendered(ReductionReport(made.reduction, made), "github") == reproducer_files(made)["issue.md"]
    assert "it compiles" in rendered(ReductionReport(Reduction(CASE, "it compiles")), "github")
