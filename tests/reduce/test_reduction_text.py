"""The reports of a reduction."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.reduce.made import reproducer
from triage.report.formats import rendered
from triage.report.reproducer import reduction_document


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_a_report_shows_the_program_the_span_and_the_cost(name: str) -> None:
    made = reproducer()
    lines = "".join(f"// line {number}\n" for number in range(100))
    reduction = replace(
        made.reduction, program=lines, reproducer="out/attention-dtype-f16"
    )
    said = rendered(name, reduction, partial(reduction_document, reproducer=made))
    for words in (
        "3 operations",
        "// line 39",
        "60 more lines",
        "last good 3.0.0, first bad 3.2.0 (3.1.0 could not be tested)",
    ):
        assert words in said, words
    assert "// line 40" not in said
    assert "44 compiles" in said
