"""A failure of the new compiler on a case that the baseline cannot read is red once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.fake_releases import write_case
from tests.nights.conftest import Command
from triage.execution.engine import Engine
from triage.execution.task import Task


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return tmp_path / "cases"


def report(cases: Path) -> Any:
    return json.loads((cases.parent / "out" / "nightly.json").read_text())


def changes(cases: Path) -> dict[str, str]:
    return {case["case"]: case["change"] for case in report(cases)["cases"]}


def junit(cases: Path) -> dict[str, list[str]]:
    """Return the elements of each test case."""
    suite = ElementTree.parse(cases.parent / "out" / "nightly.xml")
    return {
        case.get("name", ""): [child.tag for child in case]
        for case in suite.iter("testcase")
    }


def test_it_is_a_new_failure_in_every_report(cases: Path, night: Command) -> None:
    write_case(cases, "crashes", "read-from-1", "breaks-1")
    write_case(cases, "steady")
    done = night(1, 0, "--github")
    assert done.returncode == 1
    assert changes(cases) == {"crashes": "new-untested", "steady": "passing"}
    assert "1 of 2 cases newly fails on 1.1.0" in done.stdout
    assert "1.0.0 could not test it" in done.stdout
    assert "::error" in done.stderr
    answer = report(cases)
    assert [to_do["action"] for to_do in answer["to_do"]] == ["investigate"]
    assert [cluster["cases"] for cluster in answer["clusters"]] == [["crashes"]]
    assert junit(cases) == {"crashes": ["failure"], "steady": []}


def test_it_is_known_in_the_next_night_and_red_when_it_comes_back(
    cases: Path, night: Command
) -> None:
    write_case(cases, "crashes", "read-from-1", "breaks-1")
    assert night(1, 0).returncode == 1
    assert night(1, 0).returncode == 1, "the same night again"
    assert night(2, 0).returncode == 0
    assert (changes(cases), report(cases)["clusters"]) == ({"crashes": "known"}, [])
    assert junit(cases) == {"crashes": ["skipped"]}
    write_case(cases, "crashes", "read-from-1", "breaks-4")
    night(3, 0)
    assert changes(cases) == {"crashes": "untestable"}
    assert night(4, 0).returncode == 1
    assert changes(cases) == {"crashes": "new-untested"}


def test_a_night_without_a_testable_case_says_so(cases: Path, night: Command) -> None:
    write_case(cases, "later", "read-from-4")
    done = night(1, 0)
    assert (done.returncode, changes(cases)) == (3, {"later": "untestable"})
    assert "nothing could be tested" in done.stdout
    assert "nothing new fails" not in done.stdout
    write_case(cases, "steady")
    done = night(1, 0)
    assert done.returncode == 0
    assert "nothing new fails in 1 of 2 cases, 1 could not be tested" in done.stdout


def test_a_baseline_that_cannot_be_installed_is_no_failure_of_the_compiler(
    cases: Path, night: Command
) -> None:
    write_case(cases, "fails", "breaks-0")
    assert night(1, 0, "-b", "path:nowhere").returncode == 4
    assert changes(cases) == {"fails": "untestable"}


def test_an_internal_error_ends_one_case(
    cases: Path, night: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Engine.make

    def raising(engine: Engine, task: Task, *values: Any) -> object:
        if task.case.name == "broken":
            raise ZeroDivisionError
        return make(engine, task, *values)

    monkeypatch.setattr(Engine, "make", raising)
    for name in ("broken", "steady"):
        write_case(cases, name)
    done = night(1, 0)
    assert (done.returncode, "ZeroDivisionError" in done.stderr) == (4, True)
    assert changes(cases) == {"broken": "untestable", "steady": "passing"}
    assert "ZeroDivisionError" in report(cases)["cases"][0]["reason"]
    assert not report(cases)["partial"]
    assert junit(cases) == {"broken": ["skipped"], "steady": []}
