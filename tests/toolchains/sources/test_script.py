from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import History
from tests.programs import write_program
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.toolchains.home import KeptKind, Workspace
from triage.toolchains.sources.base import Build
from triage.toolchains.sources.commands import ScriptedToolchains, ScriptSection


@pytest.fixture
def timeline(history: History) -> Timeline:
    history.commit("one")
    history.commit("two")
    return Timeline(history.path)


def build(timeline: Timeline, mine: ScriptedToolchains) -> Build:
    return mine.builds(timeline, range(1, 2))[0]


def test_the_last_line_is_the_toolchain(
    timeline: Timeline, workspace: Workspace, tmp_path: Path
) -> None:
    write_program(
        tmp_path / "fetch it.sh",
        '#!/bin/sh\necho chatter\necho >&2 noise\nmkdir -p "tc/$1" && echo "$TRIAGE_COMMIT" > "tc/$1/sha"\necho "tc/$1"\n',
    )
    mine = ScriptedToolchains(workspace, ScriptSection(run="'./fetch it.sh'"), tmp_path)
    assert build(timeline, mine).seconds == 120
    folder = mine.obtain(build(timeline, mine))
    assert (folder / "sha").read_text().strip() == timeline.commits[1].sha
    assert build(timeline, mine).seconds < 10
    log = (
        workspace.home.kept(KeptKind.LOGS)
        / f"command-{timeline.commits[1].sha[:16]}.log"
    ).read_text()
    assert "chatter" in log
    assert "noise" in log


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("exit 125 #", Unobtainable, "has no toolchain of .* exit code is 125"),
        ("true", Unobtainable, "printed no path"),
        (
            "echo /no/such/folder; true",
            Unobtainable,
            "printed /no/such/folder .* does not exist",
        ),
        ("./missing.sh", EnvironmentFailure, "cannot be run"),
        ("kill -SEGV $$; true", EnvironmentFailure, "was killed by a signal"),
        ("sleep 60 #", EnvironmentFailure, "took more than 0 s"),
    ],
)
def test_each_way_to_have_no_toolchain(
    timeline: Timeline,
    workspace: Workspace,
    tmp_path: Path,
    command: str,
    error: type[Exception],
    message: str,
) -> None:
    mine = ScriptedToolchains(
        workspace,
        ScriptSection.model_construct(run=command, timeout=0.3, env={}),
        tmp_path,
    )
    with pytest.raises(
        error, match=message.replace("folder .*", "folder, which")
    ) as caught:
        mine.obtain(build(timeline, mine))
    assert isinstance(caught.value, Unobtainable) == (error is Unobtainable)


def test_a_path_with_other_files_for_another_commit_is_refused(
    timeline: Timeline, workspace: Workspace, tmp_path: Path
) -> None:
    mine = ScriptedToolchains(
        workspace,
        ScriptSection(run="mkdir -p tc; echo $TRIAGE_COMMIT > tc/sha; echo tc #"),
        tmp_path,
    )
    first, second = mine.builds(timeline, range(2))
    mine.obtain(first)
    with pytest.raises(EnvironmentFailure, match="print another path for each commit"):
        mine.obtain(second)
