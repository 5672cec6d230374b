from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import History, plain_git

__all__ = ["history", "plain_git"]


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.begin(tmp_path / "repo")
