from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triage.classify import FailingPass
from triage.execution.cache import Evidence, Record, key_of
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Captured, Ending, Execution


def record(key: str = "k", text: str = "error: x", at: str = "2026-01-01T00:00:00+00:00") -> Record:
    execution = Execution(
        ("iree-compile",), Ending.EXITED, 1, None, 1.5, 2.5, 300.0, Captured(), Captured(text, "tail", 7), None, randomised=True
    )
    return Record(key, "case", "3.3.0", at, execution, FailingPass("SomePass", "iree-some-pass"), 2, 1, {"artifact_bytes": 5})


def test_an_added_record_is_found(tmp_path: Path) -> None:
    store = Evidence(tmp_path / "e.db")
    assert store.find("k") is None
    assert store.add(record())
    assert Evidence(tmp_path / "e.db").find("k") == record()
    assert store.last_peak_mb("case") == 300.0
    assert store.last_peak_mb("other") is None


def test_nothing_is_overwritten_and_the_newest_record_is_found(tmp_path: Path) -> None:
    store = Evidence(tmp_path / "e.db")
    store.add(record(text="old"))
    store.add(record(text="new"))
    assert store.find("k").execution.stderr.head == "new"
    assert store.count() == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=20)), max_size=8))
def test_export_and_import_merge_two_machines(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path / os.urandom(6).hex()
    folder.mkdir()
    one, other = Evidence(folder / "one.db"), Evidence(folder / "other.db")
    for key, text in rows[::2]:
        one.add(record(key, text))
    for key, text in rows[1::2]:
        other.add(record(key, text))
    exported = list(one.export())
    other.load(exported, "one")
    assert other.load(exported, "one") == (0, len(exported))
    assert set(exported) <= set(other.export())
    assert {key for key, _ in rows} == {key for key in "abc" if other.find(key)}


def test_a_line_that_is_no_record_is_named_and_earlier_lines_stay(tmp_path: Path) -> None:
    source, target = Evidence(tmp_path / "a.db"), Evidence(tmp_path / "b.db")
    source.add(record())
    with pytest.raises(BadInput, match=r"file\.jsonl:2:1: no evidence record"):
        target.load([*source.export(), '{"key": 1}'], "file.jsonl")
    assert target.count() == 1


def test_a_key_depends_on_compiler_input_options_and_limits() -> None:
    base = key_of("compiler", "input", ["--a", "--b"], (120.0, 1 << 30))
    assert base == key_of("compiler", "input", ["--a", "--b"], (120.0, 1 << 30))
    others = {
        key_of("compiler2", "input", ["--a", "--b"], (120.0, 1 << 30)),
        key_of("compiler", "input2", ["--a", "--b"], (120.0, 1 << 30)),
        key_of("compiler", "input", ["--a"], (120.0, 1 << 30)),
        key_of("compiler", "input", ["--b", "--a"], (120.0, 1 << 30)),
        key_of("compiler", "input", ["--a", "--b"], (60.0, 1 << 30)),
        key_of("compiler", "input", ["--a", "--b"], (120.0, 2 << 30)),
    }
    assert len(others | {base}) == 7


def test_records_of_older_and_newer_versions_are_read(tmp_path: Path) -> None:
    store = Evidence(tmp_path / "e.db")
    store.add(record())
    [line] = store.export()
    facts = json.loads(line)
    del facts["runs"], facts["metrics"], facts["execution"]["phase"], facts["failing_pass"]
    facts["later"] = facts["execution"]["later"] = 1
    with sqlite3.connect(tmp_path / "e.db") as database:
        database.execute("UPDATE probes SET facts = ?", (zlib.compress(json.dumps(facts).encode()),))
    assert store.find("k") == replace(record(), failing_pass=None, runs=1, metrics={})


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    path.write_bytes(b"this is not sqlite" * 100)
    with pytest.raises(EnvironmentFailure, match="Move it away"):
        Evidence(path)
    assert path.read_bytes().startswith(b"this is not")


def test_several_threads_write_at_once(tmp_path: Path) -> None:
    store = Evidence(tmp_path / "e.db")
    threads = [threading.Thread(target=lambda n=n: [store.add(record(f"{n}", str(i))) for i in range(20)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count() == 160


def test_a_kill_at_any_moment_keeps_the_finished_records(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from tests.execution.test_evidence import record; from triage.execution.cache import Evidence\n"
        "store = Evidence(Path(sys.argv[1]))\n"
        "for n in range(100000):\n    store.add(record(str(n)))\n    print(n, flush=True)\n"
    )
    path = tmp_path / "e.db"
    for count in (1, 30, 100):
        command = [sys.executable, "-c", code, str(path), str(Path(__file__).parents[2])]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(count):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        added = writer.stdout.read().split()
        writer.wait()
        store = Evidence(path)
        assert store.find(added[-1] if added else "0") is not None
        assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
