from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.execution.damage import DAMAGE
from triage.toolchains.home import Home, Workspace, open_home


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_value_counts_as_missing(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    section = Workspace(Home(tmp_path)).state("s")
    section.put("k", {"a": [1, 2, 3]})
    [file] = tmp_path.rglob("*.json")
    file.write_bytes(damage(file.read_bytes()))
    assert section.get("k") is None
    section.put("k", 2)
    assert section.get("k") == 2


def test_threads_may_open_a_home_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: open_home(), range(400))) == {Home(tmp_path)}
