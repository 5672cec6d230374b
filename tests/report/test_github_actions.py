"""Errors, job summary and outputs for GitHub Actions, and the text of an issue."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.nightly.test_night import night_of
from triage.nightly.result import Night
from triage.report.issue import issue_markdown
from triage.report.night import (
    SUMMARY_BYTES,
    show_on_github,
    workflow_error,
)
from triage.report.printable import PrintedStream

EVIL = "50%\r\n::error::x\n##[error]y\n::set-output name=a::b,c:d\x1b[31m\u202e<<end"
BEFORE = "before<<x\ny\nx\n"


@pytest.fixture
def night() -> Night:
    return night_of({"a": "PF", "b": "PF", "c": "PG", "d": "FF", "e": "FP", "f": "PP"})


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as the runner does."""
    match = re.fullmatch(r"::(\w+)(?: ([^:]*))?::(.*)", line)
    assert match, line
    pairs = dict(pair.split("=", 1) for pair in match[2].split(","))
    return match[1], {name: unquote(text) for name, text in pairs.items()}, match[3]


def test_hostile_text_is_one_command() -> None:
    line = workflow_error(EVIL, file=EVIL, title=EVIL)
    assert line.isprintable()
    name, properties, message = parsed(line)
    assert (name, set(properties)) == ("error", {"file", "title"})
    assert unquote(message).startswith("50%\n::error::x\n##[error]y\n")
    assert properties["title"] == unquote(message)


def test_errors_name_recipes_and_summary_and_outputs_are_appended(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StringIO()
    monkeypatch.setattr(sys, "stderr", PrintedStream(stream))
    files = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.write_text(BEFORE)
    reports = {"markdown": EVIL}
    cases = [replace(case, source=f"recipes/{case.case}.yaml") for case in night.cases]
    night = replace(night, reports=reports, cases=cases)
    show_on_github(night, {name: str(file) for name, file in files.items()})
    lines = list(map(parsed, stream.getvalue().splitlines()))
    named = [(name, properties["file"]) for name, properties, _ in lines]
    assert named == [("error", "recipes/a.yaml"), ("error", "recipes/c.yaml")]
    assert lines[0][2].endswith("%0Aa, b")
    summary, text = (file.read_text() for file in files.values())
    assert summary.startswith(f"{BEFORE}# IREE 1.1.0 against 1.0.0")
    # as the runner reads it
    pairs = re.findall(r"(?ms)^([\w-]+)<<(\S+)\n(.*?)\n\2\n", text)
    values = {name: value for name, _, value in pairs}
    counts = [values[name] for name in ("regressed", "changed", "fixed", "failing")]
    assert counts == ["3", "0", "1", "4"]


def test_a_summary_fits_into_what_github_shows(night: Night, tmp_path: Path) -> None:
    [fixed] = night.cases_with("fixed")
    many = [replace(fixed, case=f"{number}-{'ä' * 500}") for number in range(20)]
    path = tmp_path / "summary"
    path.write_text("x" * (SUMMARY_BYTES - 5000))
    for _ in range(2):
        show_on_github(replace(night, cases=many), {"GITHUB_STEP_SUMMARY": str(path)})
        assert SUMMARY_BYTES - 5000 < path.stat().st_size <= SUMMARY_BYTES


def test_only_a_new_failure_is_said_to_pass_on_the_baseline(night: Night) -> None:
    """A list of nights keeps no cases of known failures."""
    cluster = night.clusters[0]
    new, known = night.cases[0], replace(night.cases[3], case="a")
    for cases, passes in (([], False), ([known], False), ([new], True)):
        text = issue_markdown(cluster, replace(night, cases=cases))
        assert ("It passes with" in text) is passes
