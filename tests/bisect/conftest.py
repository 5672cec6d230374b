"""Repositories of the small compiler, and the files that a bisect of it is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bisect.driving import COMMAND, CULPRIT, MIXED, PROJECT, SCRIPT
from tests.bisect.small_compiler import CALLS, PROGRAM, RECIPE, SmallCompiler, begin
from tests.git_history.history import ENV


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    """240 commits. Around the culprit all is well; a fifth of the rest does not build,
    fails otherwise or crashes.
    """
    return begin(tmp_path_factory.mktemp("small") / "repo", MIXED, CULPRIT)


@pytest.fixture(scope="session")
def misleading(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    """The same, but another commit looks like the culprit, so that the search has to go
    a long way.
    """
    return begin(
        tmp_path_factory.mktemp("misleading") / "repo", MIXED, CULPRIT, suspicious=180
    )


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that compilers and builds append to."""
    monkeypatch.setenv(CALLS, str(tmp_path / "calls"))
    return tmp_path / "calls"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "m.mlir").write_text(PROGRAM)
    (tmp_path / "attention.yaml").write_text(RECIPE)
    return tmp_path / "attention.yaml"


@pytest.fixture
def project(workplace: Path) -> Callable[[str], Path]:
    def write(sources: str) -> Path:
        (workplace / "triage.yaml").write_text(PROJECT + sources)
        return workplace / "triage.yaml"

    return write


@pytest.fixture
def command(tmp_path: Path, project: Callable[[str], Path]) -> Path:
    """A project whose compilers come from a script that builds with `cc` alone. What it
    made appears whole.
    """
    script = tmp_path / "toolchain.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    return project(COMMAND.format(script=script))
