"""`triage nights`, `site` and `show` as users call them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.nights.documents import nights
from tests.nights.test_store import HISTORIES
from tests.programs import write_program
from triage.cli.nights import open_nights
from triage.execution.cache import Record, ResultCache
from triage.model.execution import Captured, Ending, Execution


@pytest.fixture
def answer(home: Path, triage: Triage) -> Callable[..., Any]:
    """Returns the JSON of a command where five nights are stored."""
    for record in nights(HISTORIES):
        open_nights().add(record)
    return lambda *words: json.loads(triage(*words, "--format", "json").stdout)


def test_nights_are_listed_shown_and_removed(answer: Callable[..., Any]) -> None:
    listed = answer("nights", "list")["nights"]
    days = [f"2026-01-0{day}" for day in range(1, 6)]
    assert [night["at"][:10] for night in listed] == days
    assert listed[4]["verdict"][0]["cases"] == 6
    for name in ("2026-01-03", "3"):
        shown = answer("nights", "show", name)
        assert [case["case"] for case in shown["regressed"]] == ["breaks", "mended"]
    runs = [run["status"] for run in answer("show", "breaks")["runs"]]
    assert runs == ["failed", "passed"]
    assert answer("nights", "prune", "--keep", "3") == {"removed": [1, 2]}


@pytest.mark.parametrize(
    "words",
    [
        "nights show",
        "nights show 7",
        "nights prune",
        "nights prune --keep 0",
        "site",
        "show nothing",
    ],
)
def test_a_night_that_is_not_there_is_bad_input(
    home: Path, triage: Triage, words: str
) -> None:
    assert triage(*words.split()).returncode == 2


def test_no_line_for_this_program_is_shown_as_a_failure(
    home: Path, triage: Triage
) -> None:
    printed = Captured('stopped\ntriage: {"metrics": {"a": 1}}')
    failed = Execution(
        ("run",), Ending.EXITED, 1, None, 1.0, 1.0, 1.0, printed, Captured()
    )
    home.mkdir()
    with closing(ResultCache(home / "evidence.db", print)) as cache:
        cache.add(Record("key", "case", "3.9.0", failed))
    assert "triage: {" not in triage("show", "case").stdout
    [state] = json.loads(triage("show", "case", "--format", "json").stdout)["states"]
    assert state["failure"]["signature"] == "unknown:stopped"


def test_a_nightly_stores_its_night_and_the_page_shows_its_log(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    recipes, public = tmp_path / "recipes", tmp_path / "public"
    recipes.mkdir()
    (recipes / "a.txt").write_text("x")
    lines = "echo fine >&2\necho 'a.txt:1:1: error: broken badly' >&2\nexit 1"
    for name, text in (("good", "exit 0"), ("bad", lines)):
        write_program(tmp_path / name / "compile", f"#!/bin/sh\n{text}\n")
    command = '["{toolchain}/compile", "{input}"]'
    (recipes / "c.yaml").write_text(
        f"name: c\ncompiler: command\ninput: a.txt\ncommand: {command}\n"
    )
    ends = ("-t", f"path:{tmp_path / 'bad'}", "-b", f"path:{tmp_path / 'good'}")
    done = triage("nightly", recipes, *ends, "--investigate", "--out", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    [cluster] = json.loads((tmp_path / "out" / "nightly.json").read_text())["clusters"]
    steps = {step["step"]: step["status"] for step in cluster["steps"]}
    assert steps["bisect"] == "failed"
    assert list(cluster["replays"].values()) == ["reproduces"]
    assert triage("nightly", recipes, *ends).returncode == 1, "without a log"
    shown = json.loads(triage("show", "c", "--format", "json").stdout)
    assert "error: broken badly" in shown["log"]
    assert {state["status"] for state in shown["states"]} == {"passed", "failed"}
    assert triage("site", "--out", public).returncode == 0
    [case] = (public / "cases").glob("*.html")
    page = case.read_text()
    assert "error: broken badly" in page.partition('id="log-0"')[2]
    command = f"triage run {recipes}/c.yaml --case c -t {ends[1]}"
    assert command in page.replace("~/", f"{Path.home()}/")
    [failure] = (public / "failures").glob("*.html")
    assert f"../cases/{case.name}#log-0" in failure.read_text()
