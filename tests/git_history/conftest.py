from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import ENV, History


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.begin(tmp_path / "repo")
