"""What nights tell apart: failures with one signature, an edited input from a changed
compiler, and a failure on a case that the baseline cannot read, which is red once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import Triage
from tests.fake_releases import (
    environment,
    fake_releases,
    install,
    write_case,
    write_project,
)
from tests.nights.conftest import Command
from triage.execution.engine import Engine
from triage.execution.task import Task


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return tmp_path / "cases"


def answer(command: Command, *words: str) -> Any:
    return json.loads(command(*words, "--format", "json").stdout)


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


@pytest.mark.parametrize("newer", [False, True])
def test_an_edited_input_is_no_change_of_the_compiler(
    cases: Path, with_releases: Command, night: Command, workplace: Path, newer: bool
) -> None:
    for edit in range(4):
        # passes and fails in turn
        write_case(cases, "edited", *(("breaks-0",) if edit % 2 else ()))
        night(edit + 1 if newer else 1, 0)
    shown = answer(with_releases, "show", "edited")
    assert shown["flaky_changes"] == 0
    assert shown["runs"][0]["is_edited"]
    for life in shown["failures"]:
        assert life["before"] is None
        assert life["is_edited"]
    text = with_releases("show", "edited").stdout
    assert "the input changed" in text
    assert "flaky" not in text
    with_releases("site")
    index = (workplace / "public" / "index.html").read_text()
    assert "<h1>Nothing new fails" in index
    assert "newly fail" not in index


def test_an_expectation_is_no_input(cases: Path, night: Command) -> None:
    case = write_case(cases, "edited", "breaks-1")
    flags = "flags: [--mlir-print-op-on-diagnostic]\n"
    inputs = []
    for new, line in enumerate(("", flags, "expect: [{failure: timeout}]\n"), 1):
        case.write_text(case.read_text() + line)
        night(new, 0)
        inputs.append(report(cases)["cases"][0]["input"])
    assert inputs[0] != inputs[1] == inputs[2]


def test_a_failure_on_a_case_that_only_the_new_compiler_reads_is_new_in_every_report(
    cases: Path, night: Command
) -> None:
    write_case(cases, "crashes", "read-from-1", "breaks-1")
    write_case(cases, "steady")
    done = night(1, 0, "--github")
    assert done.returncode == 1
    assert changes(cases) == {"crashes": "new-untested", "steady": "passing"}
    assert "1 of 2 cases newly fail on 1.1.0" in done.stdout
    assert "1.0.0 could not test it" in done.stdout
    assert "::error" in done.stderr
    assert [to_do["action"] for to_do in report(cases)["to_do"]] == ["investigate"]
    assert report(cases)["clusters"][0]["cases"] == ["crashes"]
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
    assert "nothing new fails in 1 case; 1 not tested" in done.stdout


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


def test_a_local_build_is_bisected_among_nightlies_by_the_version_that_it_reports(
    tmp_path: Path, workplace: Path, triage: Triage
) -> None:
    # with the nightly of the third
    write_case(workplace / "cases", "breaks", "breaks-4")
    build = install(tmp_path / "built", 5, "1.2.0rc20260104")
    ends = ("-t", f"path:{build}", "-b", "1.0.0")
    with fake_releases(tmp_path / "releases", count=2, nightlies=4) as releases:
        write_project(workplace, releases)
        served = environment(releases, tmp_path / "home")
        words = ("nightly", "cases", *ends, "--bisect", "--format", "json")
        night = json.loads(triage(*words, env=served).stdout)
    [bisection] = night["regressed"][0]["bisections"]
    names = [bisection[end]["name"] for end in ("before", "after")]
    assert names == ["1.2.0rc20260102", "1.2.0rc20260103"]
