"""`triage evidence export` and `import` answer in the format that they are asked for."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import Triage
from triage.execution.cache import Evidence, Record
from triage.model.execution import Captured, Ending, Execution

COUNT = 3
RECIPE = """name: mine
compiler: command
command: ["{toolchain}/bin/cc", "{input}", "{output}"]
version: {run: ["{toolchain}/bin/cc", "--version"], pattern: "version (.+)"}
input: input.txt
"""


def record(number: int) -> Record:
    execution = Execution(("cc",), Ending.EXITED, 0, None, 1.0, 1.0, 10.0, Captured(""), Captured(""))
    return Record(f"key{number}", f"case{number}", "3.4.0", "2025-06-01T00:00:00+00:00", execution)


@pytest.fixture
def full_home(home: Path) -> Path:
    home.mkdir()
    evidence = Evidence(home / "evidence.db")
    for number in range(COUNT):
        evidence.add(record(number))
    evidence.close()
    return home


def test_export_to_a_file_answers_with_the_count(full_home: Path, triage: Triage, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    done = triage("evidence", "export", target, "--format", "json")
    assert json.loads(done.stdout) == {"file": str(target), "count": COUNT}
    assert len([json.loads(line) for line in target.read_text().splitlines()]) == COUNT
    assert str(COUNT) in triage("evidence", "export", target, "--format", "text").stdout


def test_export_to_stdout_is_one_document_or_lines(full_home: Path, triage: Triage) -> None:
    document = json.loads(triage("evidence", "export", "--format", "json").stdout)
    assert document["count"] == COUNT
    lines = [json.loads(line) for line in triage("evidence", "export").stdout.splitlines()]
    assert document["results"] == lines
    assert [line["key"] for line in lines] == ["key0", "key1", "key2"]


def test_an_empty_cache_is_exported(home: Path, triage: Triage) -> None:
    assert json.loads(triage("evidence", "export", "--format", "json").stdout) == {"results": [], "count": 0}
    assert triage("evidence", "export").stdout == ""


def test_import_answers_with_counts_by_file(full_home: Path, triage: Triage, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    triage("evidence", "export", target)
    other = os.environ | {"TRIAGE_HOME": str(tmp_path / "other")}
    answer = json.loads(triage("evidence", "import", target, target, "--format", "json", env=other).stdout)
    assert (answer["added"], answer["known"]) == (COUNT, COUNT)
    assert answer["files"] == [
        {"file": str(target), "added": COUNT, "known": 0, "skipped": 0, "problems": []},
        {"file": str(target), "added": 0, "known": COUNT, "skipped": 0, "problems": []},
    ]


def test_import_skips_and_names_what_could_not_be_read_back(full_home: Path, triage: Triage, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    triage("evidence", "export", target)
    lines = target.read_text().splitlines()
    target.write_text("\n".join([lines[0], lines[1].replace('"cpu_seconds":1.0', '"cpu_seconds":NaN'), lines[2]]))
    other = os.environ | {"TRIAGE_HOME": str(tmp_path / "other")}
    done = triage("evidence", "import", target, "--format", "json", env=other)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["added"], answer["skipped"]) == (2, COUNT - 1, 1)
    assert [problem["line"] for problem in answer["files"][0]["problems"]] == [2]
    assert f"{target}:2:1: " in done.stderr


def test_check_reports_and_repairs_damaged_rows(full_home: Path, triage: Triage) -> None:
    def check(*words: str) -> tuple[int, dict[str, object]]:
        done = triage("evidence", "check", "--format", "json", *words)
        return done.returncode, json.loads(done.stdout)

    store = str(full_home / "evidence.db")
    intact = {"file": store, "results": COUNT, "damaged": 0, "problem": None, "recovered": None}
    assert check() == (0, {"files": [intact], "intact": True})
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("UPDATE probes SET facts = x'00' WHERE key = 'key1'")
    assert check() == (1, {"files": [intact | {"results": COUNT - 1, "damaged": 1}], "intact": False})
    code, answer = check("--repair")
    assert (code, answer["files"]) == (0, [intact | {"results": COUNT - 1, "damaged": 1, "recovered": COUNT - 1}])
    assert check() == (0, {"files": [intact | {"results": COUNT - 1}], "intact": True})
    [replaced] = [path for path in full_home.glob("evidence.db.recovered-*") if not path.name.endswith("-wal")]
    code, answer = check(str(replaced))
    assert (code, answer["files"]) == (1, [intact | {"file": str(replaced), "results": COUNT - 1, "damaged": 1}])


def test_check_tells_an_unreadable_database_and_one_of_a_newer_schema(full_home: Path, triage: Triage, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert triage("evidence", "check", other).returncode == 4
    other.write_bytes(b"no database")
    assert triage("evidence", "check", other).returncode == 4
    assert triage("evidence", "check", "--repair", other).returncode == 4
    with closing(sqlite3.connect(full_home / "evidence.db")) as db, db:
        db.execute("PRAGMA user_version = 99")
    for words in (("check",), ("check", "--repair"), ("export",)):
        done = triage("evidence", *words)
        assert done.returncode == 4
        assert "99" in done.stderr


def test_a_run_goes_on_with_a_new_database_and_its_results_come_back(full_home: Path, triage: Triage) -> None:
    store = full_home / "evidence.db"
    store.write_bytes(store.read_bytes()[:100] + b"\xff" * 100 + store.read_bytes()[200:])
    done = triage("evidence", "export")
    [aside] = full_home.glob("evidence.db.damaged-*")
    assert str(aside) in done.stderr
    assert done.returncode == 4  # an export that is not complete
    assert triage("evidence", "check", "--repair").returncode == 0
    assert len(triage("evidence", "export").stdout.splitlines()) == COUNT


def test_a_metric_that_is_no_finite_number_is_ignored_and_named(home: Path, triage: Triage, tmp_path: Path) -> None:
    compiler = tmp_path / "built" / "bin" / "cc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("""#!/bin/sh
[ "$1" = --version ] && echo version 1.0 && exit
echo 'triage: {"metrics": {"good": 1, "bad": 1e999, "worse": NaN}}'
touch "$2"
""")
    compiler.chmod(0o755)
    (tmp_path / "input.txt").write_text("x")
    (tmp_path / "r.yaml").write_text(RECIPE)
    for is_cached in (False, True):
        done = triage("run", tmp_path / "r.yaml", "-t", f"path:{tmp_path / 'built'}", "--format", "json")
        [result] = json.loads(done.stdout)["results"]
        assert (done.returncode, result["cached"], result["metrics"].get("good")) == (0, is_cached, 1.0)
        assert not {"bad", "worse"} & result["metrics"].keys()
        assert is_cached or ("'bad'" in done.stderr and "'worse'" in done.stderr)


@pytest.mark.parametrize("words", [("export",), ("import", "x.jsonl")])
def test_unknown_formats_are_refused(home: Path, triage: Triage, words: tuple[str, ...]) -> None:
    assert triage("evidence", *words, "--format", "sarif").returncode == 2


def test_a_file_that_cannot_be_written_is_an_environment_failure(full_home: Path, triage: Triage, tmp_path: Path) -> None:
    assert triage("evidence", "export", tmp_path / "no" / "folder.jsonl").returncode == 4
