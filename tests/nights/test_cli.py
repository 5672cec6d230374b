"""`triage nights`, `site` and `show` as users call them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.nights.documents import nights
from tests.nights.test_store import HISTORIES
from tests.programs import write_program
from triage.cli.nights import open_nights
from triage.compilers.invocation import mismatch_line
from triage.execution.cache import Record, ResultCache
from triage.model.execution import Captured, Ending, Execution


@pytest.fixture
def imported(home: Path, triage: Triage, tmp_path: Path) -> None:
    store = open_nights()
    for record in nights(HISTORIES):
        store.add(record)


def test_nights_are_listed_shown_and_removed(imported: None, triage: Triage) -> None:
    listed = json.loads(triage("nights", "list", "--format", "json").stdout)["nights"]
    assert [night["at"][:10] for night in listed] == [
        f"2026-01-0{day}" for day in range(1, 6)
    ]
    assert listed[4]["cases"] == {"passed": 3, "failed": 1, "xfail": 1, "untestable": 1}

    shown = json.loads(
        triage("nights", "show", "2026-01-03", "--format", "json").stdout
    )
    assert [case["case"] for case in shown["regressed"]] == ["breaks", "mended"]
    assert triage("nights", "show", "2", "--format", "junit").returncode == 0

    pruned = json.loads(
        triage("nights", "prune", "--keep", "3", "--format", "json").stdout
    )
    assert pruned == {"removed": [1, 2]}


def test_a_night_that_is_not_there_is_bad_input(home: Path, triage: Triage) -> None:
    for words in (
        ["show"],
        ["show", "7"],
        ["show", "20"],
        ["prune"],
        ["prune", "--keep", "0"],
    ):
        assert triage("nights", *words).returncode == 2
    assert triage("site").returncode == 2
    assert triage("show", "nothing").returncode == 2


def test_everything_known_of_a_case_is_shown(imported: None, triage: Triage) -> None:
    shown = json.loads(triage("show", "breaks", "--format", "json").stdout)
    assert [
        (run["status"], run["nights"], run["failure"] and run["failure"]["signature"])
        for run in shown["runs"]
    ] == [
        ("failed", 3, "legalize:x"),
        ("passed", 2, None),
    ]
    assert triage("show", "break").returncode == 0
    assert triage("show", "e").returncode == 2  # several


@pytest.mark.parametrize(
    ("printed", "failure", "shown"),
    [
        (
            mismatch_line(output=0, element=3, actual="nan", expected="1"),
            "wrong-result:0",
            "result 0, element 3 is nan, expected 1",
        ),
        ('stopped\ntriage: {"metrics": {"a": 1}}', "unknown:stopped", "stopped"),
    ],
)
def test_no_line_for_this_program_is_shown_as_a_failure(
    home: Path, triage: Triage, printed: str, failure: str, shown: str
) -> None:
    failed = Execution(
        ("run",), Ending.EXITED, 1, None, 1.0, 1.0, 1.0, Captured(printed), Captured()
    )
    home.mkdir()
    with closing(ResultCache(home / "evidence.db", print)) as cache:
        cache.add(Record("key", "case", "3.9.0", failed))
    text = triage("show", "case").stdout
    assert "triage: {" not in text
    assert shown in text
    [state] = json.loads(triage("show", "case", "--format", "json").stdout)["states"]
    assert state["failure"]["signature"].startswith(failure)


def test_a_nightly_stores_its_night_and_the_page_shows_its_log(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "a.txt").write_text("x")
    good, bad = (tmp_path / name for name in ("good", "bad"))
    for folder, text in (
        (good, "exit 0"),
        (bad, "echo fine >&2\necho 'a.txt:1:1: error: broken badly' >&2\nexit 1"),
    ):
        write_program(folder / "compile", f"#!/bin/sh\n{text}\n")
    (recipes / "c.yaml").write_text(
        'name: c\ncompiler: command\ninput: a.txt\ncommand: ["{toolchain}/compile", "{input}"]\n'
    )
    night = ("nightly", recipes, "-t", f"path:{bad}", "-b", f"path:{good}")
    investigated = triage(*night, "--investigate", "--out", tmp_path / "out")
    assert investigated.returncode == 1, investigated.stderr
    [cluster] = json.loads((tmp_path / "out" / "nightly.json").read_text())["clusters"]
    steps = {step["step"]: step["status"] for step in cluster["steps"]}
    assert (steps["bisect"], list(cluster["replays"].values())) == (
        "failed",
        ["reproduces"],
    )
    assert triage(*night).returncode == 1, "without a log"
    assert [
        night["cases"]
        for night in json.loads(triage("nights", "list", "-f", "json").stdout)["nights"]
    ] == [{"failed": 1}] * 2
    shown = json.loads(triage("show", "c", "--format", "json").stdout)
    assert shown["log"]["lines"][shown["log"]["root"]].endswith("error: broken badly")
    assert {state["status"] for state in shown["states"]} == {"passed", "failed"}
    assert triage("site", "--out", tmp_path / "public").returncode == 0
    [case] = (tmp_path / "public" / "cases").glob("*.html")
    page = case.read_text()
    assert 'id="log-0"' in page
    assert "error: broken badly" in page.partition('id="log-0"')[2]
    command = f"triage run {recipes}/c.yaml --case c -t path:{bad}"
    assert command in page.replace("~/", f"{Path.home()}/")
    [failure] = (tmp_path / "public" / "failures").glob("*.html")
    assert f"../cases/{case.name}#log-0" in failure.read_text()
