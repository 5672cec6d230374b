"""A defect of the program that one case brings out is reported with that case; the night goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tests.fake_releases import environment, fake_releases, write_case
from triage.cli.app import app
from triage.execution import task


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_an_error_while_a_case_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: tuple[str, ...]) -> None:
    rules_of = task.rules_of

    def raising(*values: Any) -> object:
        if any(getattr(getattr(value, "case", value), "name", None) == "broken" for value in values):
            raise ZeroDivisionError
        return rules_of(*values)

    monkeypatch.setattr(task, "rules_of", raising)
    for name in ("steady", "broken"):
        write_case(tmp_path / "cases", name)
    with fake_releases(tmp_path / "releases", count=2) as releases:
        for name, value in environment(releases, tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        words = ["nightly", str(tmp_path / "cases"), "-t", "1.1.0", "-b", "1.0.0", "--out", str(tmp_path / "out"), *quiet]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 4
    assert "ZeroDivisionError" in result.stderr
    ElementTree.parse(tmp_path / "out" / "nightly.xml")
    answer = json.loads((tmp_path / "out" / "nightly.json").read_text())
    assert (answer["unchanged"], answer["untestable"], answer["partial"]) == (1, 1, False)
    [untested] = [case for case in answer["cases"] if case["change"] == "untestable"]
    assert (untested["case"], "ZeroDivisionError" in untested["reason"]) == ("broken", True)
    assert "broken" in result.stdout
