"""Builds of commits: in one folder, one at a time, a failed one once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.git_history.history import History
from tests.programs import kill_when, processes_with, until
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Interrupted, Unobtainable
from triage.toolchains.home import Home, KeptKind, Workspace, stored_toolchains
from triage.toolchains.sources import Build, BuildSection, SourceBuilds

STEPS = (
    'test "$(cat number)" -ne 4 && cp number "$TRIAGE_BUILD/object"',
    'mv "$TRIAGE_BUILD/object" "$TRIAGE_OUT/number"',
)
BROKEN = 4
LONG = f"777.{os.getpid()}"  # seconds that no other process sleeps


@dataclass
class Factory:
    """Builds commits of a compiler that has its commit's number."""

    home: Path
    repository: Path

    def __post_init__(self) -> None:
        self.workspace = Workspace(Home(self.home))
        self.timeline = Timeline(Repository(self.repository))

    def build(self, index: int, *commands: str, timeout: float = 3600.0) -> Build:
        steps = BuildSection(commands=commands or STEPS, timeout=timeout)
        source = SourceBuilds(self.workspace, self.timeline.repository, "tiny", steps)
        [build] = source.builds(self.timeline, range(index, index + 1))
        return build

    def obtain(self, index: int, *commands: str, timeout: float = 3600.0) -> Path:
        return self.build(index, *commands, timeout=timeout).obtain(None)

    def number(self, index: int) -> int:
        return int((self.obtain(index) / "number").read_text())

    @property
    def builders(self) -> list[Path]:
        return [*self.workspace.home.builders.glob("*/source")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Ten commits; the fifth does not build."""
    history = History.begin(tmp_path_factory.mktemp("compiled") / "repo")
    for number in range(10):
        history.commit(f"number {number}", {"number": f"{number}"})
    return history


@pytest.fixture
def factory(compiled: History, home: Path) -> Factory:
    return Factory(home, compiled.path)


def test_commits_are_built_in_one_folder(factory: Factory) -> None:
    home = factory.workspace.home
    assert factory.build(9).seconds > 0
    assert [factory.number(index) for index in (9, 8, 3)] == [9, 8, 3]
    assert len(stored_toolchains(home)) == 3
    assert len(factory.builders) == 1
    [log] = home.folder(KeptKind.LOGS).glob(f"{factory.obtain(9).name}*")
    log.unlink()
    assert factory.number(9) == 9
    assert not log.exists()  # nothing was built again
    assert factory.build(9).seconds == 0


def test_a_failed_build_is_unobtainable_and_not_tried_again(factory: Factory) -> None:
    with pytest.raises(
        Unobtainable, match=r"does not build: `test .*`: exit status 1 \(log: "
    ) as caught:
        factory.obtain(BROKEN)
    assert caught.value.log is not None
    caught.value.log.write_text("not built again")
    with pytest.raises(Unobtainable, match="does not build"):
        factory.obtain(BROKEN)
    assert caught.value.log.read_text() == "not built again"
    assert factory.number(BROKEN + 1) == BROKEN + 1


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("true", Unobtainable, "put nothing into TRIAGE_OUT"),
        ("echo 'No space left on device'; exit 1", EnvironmentFailure, "exit status 1"),
        ("kill -KILL $$", EnvironmentFailure, "ended by SIGKILL"),
        ("sleep 60", EnvironmentFailure, r"still running after .* s \(log"),
    ],
)
def test_only_what_would_fail_on_any_machine_is_remembered(
    factory: Factory, command: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        factory.obtain(0, command, timeout=0.4)
    is_remembered = any(factory.home.rglob("*.failed"))
    assert is_remembered == (caught.type is Unobtainable)
    assert not stored_toolchains(factory.workspace.home)


def test_stopping_ends_the_build(factory: Factory) -> None:
    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(factory.obtain, 0, f"sleep {LONG}")
        until(lambda: processes_with(LONG))
        factory.workspace.stop.set()
        assert isinstance(building.exception(), Interrupted)
    assert not processes_with(LONG)


KILLED = f"""
import sys
from pathlib import Path
from tests.toolchains.test_builds import Factory
factory = Factory(*map(Path, sys.argv[1:]))
factory.obtain(0, "touch $TRIAGE_BUILD/half; setsid sleep {LONG}")
"""


def test_after_a_kill_the_builder_is_cleared_and_used_again(factory: Factory) -> None:
    """kill -9 in the middle of a build: what left its process group and runs on is
    ended, its build folder emptied, its folder used again.
    """
    kill_when(lambda: processes_with(LONG), KILLED, factory.home, factory.repository)
    assert factory.number(0) == 0
    assert not processes_with(LONG)
    assert len(factory.builders) == 1
    assert not any(factory.home.rglob("build/half"))
