"""A failure of the new compiler on a case that the baseline cannot read is red once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import Triage
from tests.fake_releases import environment, fake_releases, write_case

Answer = tuple[int, dict[str, Any], str]


@pytest.fixture
def run_night(tmp_path: Path, triage: Triage) -> Iterator[Callable[..., Answer]]:
    """Runs a nightly of the cases with releases 1.N.0 and returns the exit code, the
    JSON and what a terminal shows.
    """
    with fake_releases(tmp_path / "releases", count=5, logged=False) as releases:
        env = environment(releases, tmp_path / "home")

        def run(new: int, old: int, *words: str) -> Answer:
            done = triage(
                *("nightly", tmp_path / "cases", "-t", f"1.{new}.0"),
                *("-b", f"1.{old}.0", "--out", tmp_path / "out", *words),
                env=env,
            )
            answer = json.loads((tmp_path / "out" / "nightly.json").read_text())
            return done.returncode, answer, done.stdout + done.stderr

        yield run


def changes(answer: dict[str, Any]) -> dict[str, str]:
    return {case["case"]: case["change"] for case in answer["cases"]}


def junit(folder: Path) -> dict[str, list[str]]:
    """Return the elements of each test case."""
    suite = ElementTree.parse(folder / "nightly.xml")
    return {
        case.get("name", ""): [child.tag for child in case]
        for case in suite.iter("testcase")
    }


def test_it_is_a_new_failure_in_every_report(
    tmp_path: Path, run_night: Callable[..., Answer]
) -> None:
    write_case(tmp_path / "cases", "crashes", "read-from-1", "breaks-1")
    write_case(tmp_path / "cases", "steady")
    code, answer, shown = run_night(1, 0, "--github")
    assert (code, changes(answer)) == (
        1,
        {"crashes": "new-untested", "steady": "passing"},
    )
    assert "1 of 2 cases newly fails on 1.1.0" in shown
    assert "1.0.0 could not test it" in shown
    assert "::error" in shown
    assert [to_do["action"] for to_do in answer["to_do"]] == ["investigate"]
    assert [cluster["cases"] for cluster in answer["clusters"]] == [["crashes"]]
    assert junit(tmp_path / "out") == {"crashes": ["failure"], "steady": []}
    assert "Works up to" not in (tmp_path / "out" / "nightly.md").read_text()


def test_it_is_known_in_the_next_night_and_red_when_it_comes_back(
    tmp_path: Path, run_night: Callable[..., Answer]
) -> None:
    case = write_case(tmp_path / "cases", "crashes", "read-from-1", "breaks-1")
    assert run_night(1, 0)[0] == 1
    assert run_night(1, 0)[0] == 1, "the same night again"
    code, answer, _ = run_night(2, 0)
    assert (code, changes(answer), answer["clusters"]) == (0, {"crashes": "known"}, [])
    assert junit(tmp_path / "out") == {"crashes": ["skipped"]}
    words = "read-from-1", "breaks-4"
    write_case(case.parent, "crashes", *words)
    assert changes(run_night(3, 0)[1]) == {"crashes": "untestable"}
    code, answer, _ = run_night(4, 0)
    assert (code, changes(answer)) == (1, {"crashes": "new-untested"})


def test_a_night_without_a_testable_case_says_so(
    tmp_path: Path, run_night: Callable[..., Answer]
) -> None:
    write_case(tmp_path / "cases", "later", "read-from-4")
    code, answer, shown = run_night(1, 0)
    assert (code, changes(answer)) == (3, {"later": "untestable"})
    assert "nothing could be tested" in shown
    assert "nothing new fails" not in shown
    write_case(tmp_path / "cases", "steady")
    code, _, shown = run_night(1, 0)
    assert code == 0
    assert "nothing new fails in 1 of 2 cases, 1 could not be tested" in shown


def test_a_baseline_that_cannot_be_installed_is_no_failure_of_the_compiler(
    tmp_path: Path, run_night: Callable[..., Answer], triage: Triage
) -> None:
    write_case(tmp_path / "cases", "fails", "breaks-0")
    run_night(1, 0)
    words = ("nightly", tmp_path / "cases", "-t", "1.1.0", "-b", "path:nowhere")
    with fake_releases(tmp_path / "again", count=2, logged=False) as releases:
        env = environment(releases, tmp_path / "home")
        done = triage(*words, "--format", "json", env=env)
    assert done.returncode == 4
    assert changes(json.loads(done.stdout)) == {"fails": "untestable"}
