"""`triage nights`, `site`, `open` and `show` as users call them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.nights.conftest import Call
from tests.nights.documents import FAILURES, case_record, night, nights
from tests.nights.test_store import HISTORIES
from triage.report.night import NightReport
from triage.report.night_record import NightRecord
from triage.report.registry import rendered

ROOT = Path(__file__).parents[2]


def written(folder: Path, record: NightRecord, name: str = "nightly.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(rendered(NightReport(record), "json"))
    return path


@pytest.fixture
def imported(home: Path, call: Call, tmp_path: Path) -> list[Path]:
    files = [written(tmp_path / f"night-{at}", record) for at, record in enumerate(nights(HISTORIES))]
    done = call("nights", "import", *files, "--format", "json")
    assert json.loads(done.out) == {"added": [1, 2, 3, 4, 5], "known": []}
    return files


def test_imported_nights_are_listed_shown_compared_and_removed(imported: list[Path], call: Call) -> None:
    again = json.loads(call("nights", "import", imported[0], "--format", "json").out)
    assert again == {"added": [], "known": [str(imported[0])]}

    listed = json.loads(call("nights", "list", "--format", "json").out)["nights"]
    assert [night["at"][:10] for night in listed] == [f"2026-01-0{day}" for day in range(1, 6)]
    assert listed[4]["cases"] == {"passed": 3, "failed": 1, "xfail": 1, "untestable": 1}

    shown = json.loads(call("nights", "show", "2026-01-03", "--format", "json").out)
    assert [case["case"] for case in shown["regressed"]] == ["breaks", "mended"]
    assert call("nights", "show", "2", "--format", "junit").code == 0

    compared = call("nights", "compare", "1", "3", "--format", "json")
    assert compared.code == 1
    assert [(row["case"], row["change"]) for row in json.loads(compared.out)["differences"]] == [("breaks", "regressed")]
    newest = call("nights", "compare", "--format", "json")
    assert newest.code == 0
    assert [row["case"] for row in json.loads(newest.out)["differences"]] == ["flips", "late"]

    pruned = json.loads(call("nights", "prune", "--keep", "2", "--format", "json").out)
    assert pruned == {"removed": [1, 2, 3], "kept": 2}


def test_a_file_without_a_date_counts_from_when_it_was_written(home: Path, call: Call, tmp_path: Path) -> None:
    first = ROOT / "tests" / "nightly" / "documents" / "schema-1.json"
    path = tmp_path / "nightly.json"
    path.write_bytes(first.read_bytes())
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert call("nights", "import", path).code == 0
    [listed] = json.loads(call("nights", "list", "--format", "json").out)["nights"]
    assert listed["at"] == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize("content", ["not JSON", "[]", "{}", '{"schema": 99}'])
def test_no_file_is_imported_if_one_cannot_be_read(home: Path, call: Call, tmp_path: Path, content: str) -> None:
    good, bad = written(tmp_path, night(1, {"a": "P"})), tmp_path / "bad.json"
    bad.write_text(content)
    assert call("nights", "import", good, bad).code == 2
    assert json.loads(call("nights", "list", "--format", "json").out)["nights"] == []


def test_a_night_that_is_not_there_is_bad_input(home: Path, call: Call) -> None:
    for words in (["show"], ["show", "7"], ["compare"], ["prune"], ["prune", "--older-than", "soon"]):
        assert call("nights", *words).code == 2
    assert call("site").code == 2
    assert call("show", "nothing").code == 2


def test_everything_known_of_a_case_is_shown(imported: list[Path], call: Call) -> None:
    shown = json.loads(call("show", "breaks", "--format", "json").out)
    assert [(run["status"], run["nights"], run["signature"]) for run in shown["runs"]] == [
        ("failed", 3, "legalize:x"),
        ("passed", 2, None),
    ]
    assert (shown["suite"], shown["facts"]["backend"], shown["states"]) == ("ops", "llvm-cpu", [])
    assert call("show", "break").code == 0
    assert call("show", "e").code == 2  # several


def test_the_output_that_an_imported_night_names_is_shown(home: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "breaks.log").write_text(f"note: first\nerror: {FAILURES['F'].headline}\n")
    path = written(tmp_path, night(1, {}, cases=[case_record("breaks", "F", log="logs/breaks.log")]))
    assert call("nights", "import", path).code == 0
    log = json.loads(call("show", "breaks", "--format", "json").out)["log"]
    assert (log["root"], len(log["lines"]), log["toolchain"]) == (1, 2, "nightly:2026-01-01")


def test_a_nightly_stores_its_night_and_the_page_shows_its_log(shared_home: Path, call: Call, tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "a.txt").write_text("x")
    good, bad = (tmp_path / name for name in ("good", "bad"))
    for folder, text in ((good, "exit 0"), (bad, "echo fine >&2\necho 'a.txt:1:1: error: broken badly' >&2\nexit 1")):
        folder.mkdir()
        (folder / "compile").write_text(f"#!/bin/sh\n{text}\n")
        (folder / "compile").chmod(0o755)
    (recipes / "c.yaml").write_text('name: c\ncompiler: command\ninput: a.txt\ncommand: ["{toolchain}/compile", "{input}"]\n')
    done = call("nightly", recipes, "-t", f"path:{bad}", "-b", f"path:{good}")
    assert done.code == 1, done.err
    assert [night["cases"] for night in json.loads(call("nights", "list", "-f", "json").out)["nights"]] == [{"failed": 1}]
    shown = json.loads(call("show", "c", "--format", "json").out)
    assert shown["log"]["lines"][shown["log"]["root"]].endswith("error: broken badly")
    assert {state["status"] for state in shown["states"]} == {"passed", "failed"}
    investigated = call(
        "nightly", recipes, "-t", f"path:{bad}", "-b", f"path:{good}", "--investigate", "--out", tmp_path / "out"
    )
    assert investigated.code == 1, investigated.err
    [cluster] = json.loads((tmp_path / "out" / "nightly.json").read_text())["clusters"]
    assert (cluster["culprit"]["status"], list(cluster["replays"].values())) == ("inconclusive", ["reproduces"])
    assert call("site", "--out", tmp_path / "public").code == 0
    assert "broken badly" in "".join(path.read_text() for path in (tmp_path / "public" / "data").glob("cases-*.js"))
    opened = call("open", "--no-browser", "--format", "json")
    assert Path(json.loads(opened.out)["index"]).is_file()
