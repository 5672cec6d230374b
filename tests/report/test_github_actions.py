"""Errors, job summary and outputs for GitHub Actions."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from tests.nightly.test_compare import night_of
from triage.nightly.result import Night
from triage.report.github_actions import (
    SUMMARY_BYTES,
    outputs,
    show_on_github,
    workflow_command,
)
from triage.report.printable import PrintedStream

EVIL = "50%\r\n::error::x\n##[error]y\n::set-output name=a::b,c:d\x1b[31m\u202e<<end"


@pytest.fixture
def night() -> Night:
    return night_of(
        {"a": "PF", "b": "PF", "c": "PG", "d": "FF", "e": "FP", "f": "PP"}, old=0, new=1
    )


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as the runner does."""
    match = re.fullmatch(r"::(\w+)(?: ([^:]*))?::(.*)", line)
    assert match, line

    def plain(text: str, codes: tuple[str, ...]) -> str:
        for code in codes:
            text = text.replace(code, chr(int(code[1:], 16)))
        return text.replace("%25", "%")

    pairs = dict(pair.split("=", 1) for pair in (match[2] or "").split(",") if pair)
    return (
        match[1],
        {
            name: plain(text, ("%0D", "%0A", "%3A", "%2C"))
            for name, text in pairs.items()
        },
        plain(match[3], ("%0D", "%0A")),
    )


def test_hostile_text_is_one_command() -> None:
    line = workflow_command("error", EVIL, file=EVIL, title=EVIL)
    assert line.isprintable()
    name, properties, message = parsed(line)
    assert (name, set(properties)) == ("error", {"file", "title"})
    assert message.startswith("50%\n::error::x\n##[error]y\n")
    assert properties["title"] == message


def assigned(path: Path) -> dict[str, str]:
    """Read GITHUB_OUTPUT as the runner does."""
    values, lines = {}, iter(path.read_text().split("\n"))
    for line in lines:
        if line:
            name, mark = line.split("<<")
            block: list[str] = []
            while (text := next(lines)) != mark:
                block.append(text)
            values[name] = "\n".join(block)
    return values


def test_errors_name_recipes_and_summary_and_outputs_are_appended(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StringIO()
    monkeypatch.setattr(sys, "stderr", PrintedStream(stream))
    environment = {
        name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")
    }
    for name in environment:
        (tmp_path / name).write_text("before<<x\ny\nx\n")
    reports = {"markdown": EVIL, "json": "out/nightly.json"}
    cases = [replace(case, source=f"recipes/{case.case}.yaml") for case in night.cases]
    hostile = replace(night, reports=reports, cases=cases)
    show_on_github(hostile, environment)
    lines = [parsed(line) for line in stream.getvalue().splitlines()]
    assert [(name, properties["file"]) for name, properties, _ in lines] == [
        ("error", "recipes/a.yaml"),
        ("error", "recipes/c.yaml"),
    ]
    assert lines[0][2].splitlines()[1] == "a, b"
    summary = (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert summary.startswith("before<<x\ny\nx\n# IREE 1.1.0 against 1.0.0")
    values = assigned(tmp_path / "GITHUB_OUTPUT")
    assert set(values) == {"before", *outputs(night)}
    assert (
        values["regressed"],
        values["changed"],
        values["fixed"],
        values["failing"],
    ) == ("3", "0", "1", "4")
    assert values["json"] == "out/nightly.json"


def test_a_summary_fits_into_what_github_shows(night: Night, tmp_path: Path) -> None:
    [fixed] = night.cases_with("fixed")
    many = [replace(fixed, case=f"{number}-{'ä' * 500}") for number in range(20)]
    path = tmp_path / "summary"
    path.write_text("x" * (SUMMARY_BYTES - 5000))
    for _ in range(2):
        show_on_github(replace(night, cases=many), {"GITHUB_STEP_SUMMARY": str(path)})
        assert SUMMARY_BYTES - 5000 < path.stat().st_size <= SUMMARY_BYTES
