from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.conftest import history, plain_git  # noqa: F401
from triage.toolchains.home import Home, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Home(tmp_path / "home"))
