from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git_history.conftest import history, plain_git  # noqa: F401
from tests.toolchains.loopback import LoopbackIndex, make_wheel, serve
from triage.toolchains.home import Home, Workspace


@pytest.fixture
def loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LoopbackIndex]:
    """An index with the releases 1.0.0, 1.1.0, 1.10.0 and the candidate
    1.11.0rc20260101; the one the program asks.
    """
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("1.0.0", "1.1.0", "1.10.0", "1.11.0rc20260101"):
        make_wheel(folder, version)
    with serve(folder) as index:
        index.publish()
        monkeypatch.setenv("TRIAGE_INDEX_URL", index.url)
        yield index


@pytest.fixture
def workspace(home: Path) -> Workspace:
    return Workspace(Home(home))
