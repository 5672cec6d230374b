from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.toolchains.home import open_home
from triage.toolchains.workspace import SCHEMA_VERSION, StateSection, StateStore

VALUES = [0, 1.5, "text", "nul \0 and ünïcödé 🙂", [1, [2]], {"a": None}, True]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


def section(path: Path, name: str = "s") -> StateSection:
    return StateStore(path).section(name)


def version(path: Path) -> int:
    return int(sqlite3.connect(path).execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize("value", VALUES)
def test_values_are_read_as_they_were_written(path: Path, value: object) -> None:
    section(path).put("k", value)
    assert section(path).get("k") == value
    assert section(path, "other").get("k") is None
    assert section(path).get("other") is None
    assert version(path) == SCHEMA_VERSION


def test_many_threads_and_processes_lose_no_update(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from triage.toolchains.workspace import StateStore
section = StateStore(Path(sys.argv[1])).section("s")
for _ in range(20):
    section.update("count", lambda count: (count or 0) + 1)
"""
    others = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(3)]
    shared = section(path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: shared.update("count", lambda count: (count or 0) + 1), range(20)))
    assert [process.wait() for process in others] == [0, 0, 0]
    assert shared.get("count") == 80


def test_an_update_that_fails_changes_nothing(path: Path) -> None:
    store = section(path)
    store.put("k", 1)

    def fail(value: object) -> object:
        raise EnvironmentFailure(f"refused {value}")

    with pytest.raises(EnvironmentFailure, match="refused 1"):
        store.update("k", fail)
    assert store.get("k") == 1
    store.update("k", lambda value: value + 1)
    assert store.get("k") == 2


@pytest.mark.parametrize("damage", ["garbage", "header", "pages", "truncated"])
def test_a_corrupt_file_is_set_aside_and_a_new_one_started(path: Path, damage: str) -> None:
    store = section(path)
    for number in range(200):
        store.put(f"k{number}", "x" * 200)
    data = path.read_bytes()
    match damage:
        case "garbage":
            path.write_bytes(b"garbage" * 1000)
        case "header":
            path.write_bytes(b"\xff" * 100 + data[100:])
        case "pages":
            path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
        case "truncated":
            path.write_bytes(data[: len(data) // 2])
    for opened in (store, section(path)):
        assert opened.get("k199") is None or damage == "truncated"
        opened.put("new", damage)
        assert opened.get("new") == damage
    assert version(path) == SCHEMA_VERSION
    assert (path.parent / "state.db.corrupt").exists()


@pytest.mark.parametrize("seed", range(25))
def test_a_flipped_bit_ends_no_run(path: Path, seed: int) -> None:
    store = section(path)
    for number in range(30):
        store.put(f"k{number}", "xyz" * 100)
    place = random.Random(seed)
    data = bytearray(path.read_bytes())
    index = place.randrange(len(data)) if seed % 2 else place.randrange(200)
    data[index] ^= 1 << place.randrange(8)
    path.write_bytes(data)
    try:
        for number in range(30):
            section(path).get(f"k{number}")
        section(path).put("new", 1)
        assert section(path).get("new") == 1
    except EnvironmentFailure as error:
        assert "newer version" in str(error)  # noqa: PT017 - the flip hit the schema number


def test_waiting_for_a_locked_file_ends_with_the_stop(path: Path) -> None:
    stop = threading.Event()
    StateStore(path).section("s").put("k", 1)
    with closing(sqlite3.connect(path)) as db, ThreadPoolExecutor(1) as pool:
        db.execute("BEGIN EXCLUSIVE")
        waiting = pool.submit(StateStore(path, stop).section("s").put, "k", 2)
        stop.set()
        assert isinstance(waiting.exception(timeout=30), Interrupted)
    assert section(path).get("k") == 1


def test_a_file_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    section(path).put("k", 1)
    sqlite3.connect(path).execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    for call in (lambda: section(path).get("k"), lambda: section(path).put("k", 2)):
        with pytest.raises(EnvironmentFailure, match="newer version of triage"):
            call()
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_an_environment_failure(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(EnvironmentFailure, match="cannot create"):
        section(tmp_path / "home" / "state.db").put("k", 1)


def test_threads_may_open_a_home_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: open_home(), range(400))) == {tmp_path}
