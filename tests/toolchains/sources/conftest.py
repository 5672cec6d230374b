from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git_history.conftest import history, plain_git  # noqa: F401
from tests.toolchains.sources.loopback_github import TOKEN, LoopbackGitHub, serve_github
from triage.toolchains.home import Home, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Home(tmp_path / "home"))


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackGitHub]:
    with serve_github() as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        yield server
