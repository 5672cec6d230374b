"""The text and JSON reports of a reduction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reduce.made import CASE, OVERFLOW, probes, reproducer
from triage.reduce.result import NotReproducible
from triage.report.reduction import ReductionReport
from triage.report.registry import write_report
from triage.report.reproducer import reproducer_files
from triage.report.shapes import as_json


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner of tests may name a width for its own output."""
    monkeypatch.delenv("COLUMNS", raising=False)


def test_long_lines_are_not_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    line = "  func.func @f(" + ", ".join(f"%arg{number}: tensor<4xf16> [bold]" for number in range(40)) + ")"
    write_report(ReductionReport(replace(reproducer(), text=f"module {{\n{line}\n}}\n")), "text")
    said = capsys.readouterr().out
    assert f"\n  {line}\n" in said
    assert "attention[dtype=f16] is now 3 operations\n" in said
    assert "last good 3.0.0, first bad 3.2.0 (3.1.0 could not be tested), last bad 3.3.0, fixed in 3.4.0\n" in said
    assert "740 operations, 900 lines, 40000 bytes -> 3 operations, 5 lines" in said
    assert "other failure verifier: 'stream.async' op <bad>\n" in said
    assert "44 compiles in 20.0 s, 14 cache hits; 31.3 s in total\n" in said


def test_why_nothing_was_reduced_names_what_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    found = NotReproducible(CASE, "it compiles on 3.4.0; there is nothing to reduce", probes("PUFG"))
    write_report(ReductionReport(found), "text")
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert said[:2] == ["attention[dtype=f16]: not reduced", "reason it compiles on 3.4.0; there is nothing to reduce"]
    assert said[2:5] == [
        "tried 3.0.0: compiles",
        "tried 3.1.0: untestable: does not know the flag --iree-y",
        f"tried 3.2.0: fails: shared-memory-overflow: {OVERFLOW.headline}",
    ]
    assert set(as_json(ReductionReport(found).shape())) >= {
        "status",
        "signature",
        "operations",
        "lines",
        "bytes",
        "oracle_calls",
        "seconds",
    }


def test_the_github_format_is_the_issue_of_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    write_report(ReductionReport(reproducer()), "github")
    assert capsys.readouterr().out == reproducer_files(reproducer())["issue.md"]
    write_report(ReductionReport(NotReproducible(CASE, "it compiles")), "github")
    assert "it compiles" in capsys.readouterr().out
