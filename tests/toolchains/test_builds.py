from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.git_history.history import History
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Interrupted, Unobtainable
from triage.toolchains.home import KeptKind, Workspace, stored_toolchains
from triage.toolchains.sources import BuildSection, SourceBuilds

STEPS = (
    'test "$(cat number)" -ne 4 && cp number "$TRIAGE_BUILD/object"',
    'mv "$TRIAGE_BUILD/object" "$TRIAGE_OUT/number"',
)
BROKEN = 4
LONG = f"777.{os.getpid()}"  # seconds that no other process sleeps


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Ten commits of a compiler that has its commit's number; the fifth does not build."""
    history = History.begin(tmp_path_factory.mktemp("compiled") / "repo")
    for number in range(10):
        history.commit(f"number {number}", {"number": f"{number}"})
    return history


@pytest.fixture
def timeline(compiled: History) -> Timeline:
    return Timeline(Repository(compiled.path))


def steps_of(*commands: str, timeout: float = 3600.0) -> BuildSection:
    return BuildSection(commands=commands, timeout=timeout)


def source(
    workspace: Workspace, timeline: Timeline, steps: BuildSection | None = None
) -> SourceBuilds:
    return SourceBuilds(
        workspace, timeline.repository, "tiny", steps or steps_of(*STEPS)
    )


def obtained(mine: SourceBuilds, timeline: Timeline, index: int) -> Path:
    [build] = mine.builds(timeline, range(index, index + 1))
    return build.obtain(None)


def printed(folder: Path) -> int:
    return int((folder / "number").read_text())


def builders(workspace: Workspace) -> list[Path]:
    return sorted((workspace.home.builders).glob("*/source"))


def sleeping(seconds: str) -> list[int]:
    """The processes that sleep so long; one that ended but was not collected has no
    command line.
    """
    processes = psutil.process_iter(["cmdline"], ad_value=[])
    lines = [(process.pid, process.info["cmdline"][-2:]) for process in processes]
    return [pid for pid, line in lines if line == ["sleep", seconds]]


def test_commits_are_built_in_one_folder(
    timeline: Timeline, workspace: Workspace
) -> None:
    mine, home = source(workspace, timeline), workspace.home
    assert mine.builds(timeline, range(9, 10))[0].seconds > 0
    folders = {index: obtained(mine, timeline, index) for index in (9, 8, 3)}
    for index, folder in folders.items():
        assert printed(folder) == index
    assert {one.folder for one in stored_toolchains(home)} == set(folders.values())
    assert len(builders(workspace)) == 1
    [log] = home.folder(KeptKind.LOGS).glob(f"{folders[9].name}*")
    log.unlink()
    assert obtained(mine, timeline, 9) == folders[9]
    assert not log.exists()  # nothing was built again
    assert mine.builds(timeline, range(9, 10))[0].seconds == 0


def test_a_failed_build_is_unobtainable_and_not_tried_again(
    timeline: Timeline, workspace: Workspace
) -> None:
    mine = source(workspace, timeline)
    with pytest.raises(
        Unobtainable, match=r"does not build: `test .*`: exit status 1 \(log: "
    ) as caught:
        obtained(mine, timeline, BROKEN)
    assert caught.value.log is not None
    caught.value.log.write_text("not built again")
    with pytest.raises(Unobtainable, match="does not build"):
        obtained(mine, timeline, BROKEN)
    assert caught.value.log.read_text() == "not built again"
    assert printed(obtained(mine, timeline, BROKEN + 1)) == BROKEN + 1


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("true", Unobtainable, "put nothing into TRIAGE_OUT"),
        (
            "echo 'cc1: No space left on device'; exit 1",
            EnvironmentFailure,
            "exit status 1",
        ),
        ("kill -KILL $$", EnvironmentFailure, "ended by SIGKILL"),
        ("sleep 60", EnvironmentFailure, r"still running after .* s \(log"),
    ],
)
def test_ways_to_end(
    timeline: Timeline,
    workspace: Workspace,
    command: str,
    error: type[Exception],
    message: str,
) -> None:
    steps = steps_of(command, timeout=0.4)
    mine = source(workspace, timeline, steps)
    with pytest.raises(error, match=message) as caught:
        obtained(mine, timeline, 0)
    # Only what would fail on any machine is remembered.
    assert bool(list(workspace.home.path.rglob("*.failed"))) == (
        type(caught.value) is Unobtainable
    )
    assert not stored_toolchains(workspace.home)


def test_stopping_ends_the_build(timeline: Timeline, workspace: Workspace) -> None:
    stop = threading.Event()
    stoppable = Workspace(workspace.home, stop=stop)
    mine = source(stoppable, timeline, steps_of(f"sleep {LONG}"))
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        obtained(mine, timeline, 0)
    assert not sleeping(LONG)


def test_after_a_kill_the_builder_is_cleared_and_used_again(
    timeline: Timeline, workspace: Workspace
) -> None:
    """kill -9 in the middle of a build: what left its process group and runs on is
    ended, its build folder emptied, its folder used again.
    """
    code = (
        "import sys; from pathlib import Path\n"
        "from triage.git_history.timeline import Timeline\nfrom triage.toolchains.home import Home, Workspace\n"
        "from triage.git_history.repository import Repository\n"
        "from triage.toolchains.sources import SourceBuilds\n"
        "from tests.toolchains.test_builds import steps_of\n"
        "home, repo = map(Path, sys.argv[1:3]); timeline = Timeline(Repository(repo))\n"
        "steps = steps_of('touch $TRIAGE_BUILD/half; setsid sleep ' + sys.argv[3])\n"
        "mine = SourceBuilds(Workspace(Home(home)), timeline.repository, 'tiny', steps)\n"
        "mine.builds(timeline, range(0, 1))[0].obtain(None)\n"
    )
    folders = workspace.home.path, timeline.repository.path
    words = [sys.executable, "-c", code, *map(str, folders), LONG]
    killed = subprocess.Popen(words, cwd=Path(__file__).parents[2])
    while not sleeping(LONG):
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    mine = source(workspace, timeline)
    assert printed(obtained(mine, timeline, 0)) == 0
    assert not sleeping(LONG)
    assert len(builders(workspace)) == 1
    assert not list((workspace.home.builders).glob("*/build/half"))
