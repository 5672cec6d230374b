from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.execution.damage import DAMAGE
from triage.model.errors import EnvironmentFailure, Interrupted
from triage.toolchains.home import open_home
from triage.toolchains.workspace import StateSection, StateStore

VALUES = [0, 1.5, "text", "nul \0 and ünïcödé 🙂", [1, [2]], {"a": None}, True]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state"


def section(path: Path, name: str = "s") -> StateSection:
    return StateStore(path).section(name)


@pytest.mark.parametrize("value", VALUES)
def test_values_are_read_as_they_were_written(path: Path, value: object) -> None:
    section(path).put("k", value)
    assert section(path).get("k") == value
    assert section(path, "other").get("k") is None
    assert section(path).get("other") is None


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


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_value_counts_as_not_there(path: Path, damage: Callable[[bytes], bytes]) -> None:
    section(path).put("k", {"a": [1, 2, 3]})
    [file] = path.rglob("*.json")
    file.write_bytes(damage(file.read_bytes()))
    assert section(path).get("k") is None
    section(path).put("k", 2)
    assert section(path).get("k") == 2


def test_waiting_for_an_update_of_another_process_ends_with_the_stop(path: Path) -> None:
    stop, other = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(section(path).update, "k", lambda _: other.wait(60))
        while not (path / "s" / ".lock").exists():
            pass
        waiting = pool.submit(StateStore(path, stop).section("s").update, "k", lambda _: 2)
        stop.set()
        other.set()
        assert isinstance(waiting.exception(timeout=30), Interrupted | None)


def test_a_folder_that_cannot_be_written_is_an_environment_failure(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(EnvironmentFailure, match="write"):
        section(tmp_path / "home" / "state").put("k", 1)


def test_threads_may_open_a_home_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: open_home(), range(400))) == {tmp_path}
