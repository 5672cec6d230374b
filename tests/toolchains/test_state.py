from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.execution.damage import DAMAGE
from triage.toolchains.home import open_home
from triage.toolchains.workspace import StateSection, StateStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state"


def section(path: Path, name: str = "s") -> StateSection:
    return StateStore(path).section(name)


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


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_value_counts_as_not_there(path: Path, damage: Callable[[bytes], bytes]) -> None:
    section(path).put("k", {"a": [1, 2, 3]})
    [file] = path.rglob("*.json")
    file.write_bytes(damage(file.read_bytes()))
    assert section(path).get("k") is None
    section(path).put("k", 2)
    assert section(path).get("k") == 2


def test_threads_may_open_a_home_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: open_home(), range(400))) == {tmp_path}
