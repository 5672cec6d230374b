"""`triage evidence export` and `import` answer in the format that they are asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import Triage
from triage.execution.cache import Evidence, Record
from triage.model.execution import Captured, Ending, Execution

COUNT = 3


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
        {"file": str(target), "added": COUNT, "known": 0},
        {"file": str(target), "added": 0, "known": COUNT},
    ]


@pytest.mark.parametrize("words", [("export",), ("import", "x.jsonl")])
def test_unknown_formats_are_refused(home: Path, triage: Triage, words: tuple[str, ...]) -> None:
    assert triage("evidence", *words, "--format", "sarif").returncode == 2


def test_a_file_that_cannot_be_written_is_an_environment_failure(full_home: Path, triage: Triage, tmp_path: Path) -> None:
    assert triage("evidence", "export", tmp_path / "no" / "folder.jsonl").returncode == 4
