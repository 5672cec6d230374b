from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git_history.history import ENV, History
from tests.toolchains.sources.loopback_github import TOKEN, LoopbackGitHub, serve_github
from triage.toolchains.workspace import Workspace


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.begin(tmp_path / "repo")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "home")


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackGitHub]:
    with serve_github() as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        yield server
