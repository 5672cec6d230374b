from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triage.classify import FailingPass
from triage.execution.cache import Evidence, ImportedLines, Record, key_of
from triage.model.errors import Interrupted
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
    assert other.load(exported, "one") == ImportedLines("one", 0, len(exported), 0, ())
    assert set(exported) <= set(other.export())
    assert {key for key, _ in rows} == {key for key in "abc" if other.find(key)}


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


#: What replaces `"cpu_seconds":2.5` in a line.
UNREADABLE_NUMBERS = {
    "nan": "NaN",
    "infinity": "-Infinity",
    "too large a float": "1e999",
    "too large an integer": "9" * 400,
    "more digits than Python reads": "9" * 5000,
    "negative": "-1",
    "text": '"2.5"',
    "boolean": "true",
    "null": "null",
    "deep": nested(100_000),
}


@pytest.mark.parametrize("value", UNREADABLE_NUMBERS.values(), ids=UNREADABLE_NUMBERS)
def test_a_number_that_could_not_be_read_back_is_not_imported(tmp_path: Path, value: str) -> None:
    store, other = Evidence(tmp_path / "a.db"), Evidence(tmp_path / "b.db")
    store.add(record())
    [line] = store.export()
    damaged = line.replace('"cpu_seconds":2.5', f'"cpu_seconds":{value}')
    done = other.load([damaged, "\n", line], "file.jsonl")
    assert (done.added, done.skipped) == (1, 1)
    [problem] = done.problems
    assert (problem.path, problem.line) == ("file.jsonl", 1)
    assert list(other.export()) == [line]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metrics", {"a": float("nan")}),
        ("metrics", {"a": 10**400}),
        ("metrics", {"a": "1"}),
        ("metrics", []),
        ("runs", -1),
        ("runs", 1.5),
        ("runs", 1 << 70),
        ("key", 1),
        ("key", "\ud800"),
        ("failing_pass", "SomePass"),
        ("execution", None),
        ("execution.output_bytes", -1),
        ("execution.exit_code", "0"),
        ("execution.ending", "melted"),
        ("execution.ending", []),
        ("execution.argv", "cc"),
        ("execution.argv", [None]),
        ("execution.stdout", {"head": 1}),
        ("execution.randomised", 1),
        ("execution.phase", 3),
    ],
)
def test_a_value_of_another_kind_is_not_imported(tmp_path: Path, field: str, value: object) -> None:
    store = Evidence(tmp_path / "a.db")
    store.add(record())
    facts = json.loads(next(store.export()))
    *parents, name = field.split(".")
    (facts[parents[0]] if parents else facts)[name] = value
    done = store.load([json.dumps(facts), "{}", "[]", "1", '"x"', "\0", "{"], "file")
    assert (done.added, done.skipped) == (0, 7)
    assert [problem.line for problem in done.problems] == [1, 2, 3, 4, 5, 6, 7]


def test_only_the_first_unreadable_lines_are_named(tmp_path: Path) -> None:
    done = Evidence(tmp_path / "e.db").load(["{"] * 1000, "file")
    assert done.skipped == 1000
    assert len(done.problems) == 20


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 10**400])
def test_a_record_that_could_not_be_read_back_is_not_written(tmp_path: Path, number: float) -> None:
    warnings: list[str] = []
    store = Evidence(tmp_path / "e.db", warnings.append)
    assert not store.add(replace(record(), execution=replace(record().execution, seconds=number)))
    assert len(warnings) == 1
    assert store.count() == 0
    assert store.add(record())


def test_text_that_utf8_cannot_hold_is_written_so_that_it_is_read(tmp_path: Path) -> None:
    store = Evidence(tmp_path / "e.db")
    assert store.add(replace(record(), case_name="a\ud800", execution=replace(record().execution, argv=("cc", "\udcff.mlir"))))
    assert store.find("k").execution.argv == ("cc", "?.mlir")
    assert store.last_peak_mb("a\ud800") == 300.0
    assert len(key_of("compiler", "input", ["--a=\udcff"], (1.0, 1))) == 64


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
        text = json.dumps(facts).encode()
        database.execute("UPDATE probes SET digest = ?, facts = ?", (sha256(text).hexdigest(), zlib.compress(text)))
    assert store.find("k") == replace(record(), failing_pass=None, runs=1, metrics={})


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


@pytest.mark.parametrize("how", ["set aside", "removed"])
def test_numbers_grow_from_a_store_to_the_one_that_follows_it(tmp_path: Path, how: str) -> None:
    """So that --fresh, when it is continued, finds what it compiled after the store was replaced."""
    path = tmp_path / "e.db"
    store = Evidence(path)
    for number in range(3):
        store.add(record(f"key{number}"))
    last = store.last_number()
    if how == "set aside":
        [row] = sqlite3.connect(store.start_anew()).execute("SELECT digest, facts FROM probes WHERE key = 'key0'")
        store.add_older([row])
    else:
        path.unlink()
    assert store.find("key0", after=last) is None
    store.add(record("new"))
    assert store.find("new", after=last) == record("new")
    assert store.last_number() > last


def test_waiting_for_a_locked_store_ends_with_the_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    store = Evidence(tmp_path / "e.db", stop=stop)
    other = sqlite3.connect(tmp_path / "e.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(store.add, record(key)) for key in ("a", "b")]
        stop.set()
        assert all(isinstance(added.exception(timeout=30), Interrupted) for added in waiting)
    other.close()
    assert store.add(record())
