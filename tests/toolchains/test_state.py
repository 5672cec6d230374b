from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from triage.toolchains.home import Home, open_home


def test_threads_may_open_a_home_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: open_home(), range(400))) == {Home(tmp_path)}
