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


def test_a_stored_text_is_of_its_key_and_whole(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for key in ("first", "second"):
        home.store("kind", key, key.encode())
    assert (home.stored("kind", "first"), home.stored("kind", "third")) == (
        b"first",
        None,
    )
    first, second = (tmp_path / "state" / "kind").iterdir()
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    assert {home.stored("kind", key) for key in ("first", "second")} == {None}
    home.store("kind", "first", b"first")
    for file in (first, second):
        file.write_bytes(file.read_bytes().replace(b"first", b"worst"))
    assert home.stored("kind", "first") is None
