from __future__ import annotations

import time
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.git_history.history import History
from tests.toolchains.loopback import make_wheel
from tests.toolchains.sources.loopback_github import ARTIFACT, LoopbackGitHub, archive
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.toolchains.home import Workspace, remove_tree
from triage.toolchains.install import bytes_below, is_intact
from triage.toolchains.sources.artifact import ArtifactsSection, CommitArtifacts

PROGRAM = "iree/compiler/_mlir_libs/iree-compile"


@pytest.fixture
def timeline(history: History) -> Timeline:
    for number in range(10):
        history.commit(f"c{number}", date=f"2025-06-{number + 1:02}T12:00:00+02:00")
    return Timeline(history.path)


@pytest.fixture
def wheel(tmp_path: Path) -> bytes:
    """An artifact as it should be: the compiler's wheel among others."""
    (tmp_path / "made").mkdir()
    other = tmp_path / "made" / "iree_base_runtime-3.5.0.dev0-py3-none-any.whl"
    other.write_bytes(b"not looked at")
    return archive(make_wheel(tmp_path / "made", "3.5.0.dev0+abc"), other)


def source(workspace: Workspace) -> CommitArtifacts:
    settings = ArtifactsSection(artifact=ARTIFACT, branch="main")
    return CommitArtifacts(workspace, "iree-org/iree", "iree-base-compiler", settings)


def add(
    github: LoopbackGitHub,
    timeline: Timeline,
    index: int,
    data: bytes = b"",
    **how: object,
) -> None:
    commit = timeline.commits[index]
    github.add(commit.sha, commit.date[:10] + "T10:05:00Z", data, **how)  # type: ignore[arg-type]


def test_unobtainable_artifacts_are_listed_with_the_reason(
    github: LoopbackGitHub, timeline: Timeline, workspace: Workspace, wheel: bytes
) -> None:
    add(github, timeline, 0, wheel)  # outside of the range
    add(github, timeline, 1, wheel)
    add(github, timeline, 2, wheel, expired=True)
    add(github, timeline, 4, wheel, branch="users/somebody")
    add(github, timeline, 5, wheel, fork=True)
    builds = source(workspace).builds(timeline, range(1, 9))
    assert [(one.position.index, one.untestable) for one in builds] == [
        (1, None),
        (2, f"its {ARTIFACT} expired"),
    ]
    assert builds[0].revision.commit == timeline.commits[1].sha
    assert builds[0].seconds == 25
    with pytest.raises(Unobtainable, match="expired"):
        source(workspace).obtain(builds[1])


def test_an_artifact_is_obtained_once(
    github: LoopbackGitHub, timeline: Timeline, workspace: Workspace, wheel: bytes
) -> None:
    add(github, timeline, 1, wheel)
    mine = source(workspace)
    [build] = mine.builds(timeline, range(1, 2))
    folder = mine.obtain(build)
    assert (folder / PROGRAM).read_bytes() == b"\x7fELF compiler"
    assert is_intact(folder)
    assert source(workspace).obtain(build) == folder
    assert github.asked["zip"] == 1
    # That it is here is enough, whatever the server says of it by now.
    github.artifacts[0]["expired"] = True
    [again] = source(workspace).builds(timeline, range(1, 2))
    assert (again.seconds, again.untestable) == (0, None)


def test_a_wheel_is_inflated_with_a_limit(
    github: LoopbackGitHub,
    timeline: Timeline,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as bomb:
        name = "iree_base_compiler-3.5.0-py3-none-any.whl"
        bomb.writestr(name, bytes(64 << 20))
    assert len(content.getvalue()) < 1 << 17
    add(github, timeline, 1, content.getvalue())
    [build] = source(workspace).builds(timeline, range(1, 2))
    written: list[int] = []
    monkeypatch.setattr(
        "triage.toolchains.install.remove_tree",
        lambda root: written.append(bytes_below(root)) or remove_tree(root),
    )
    with pytest.raises(Unobtainable, match=r"is damaged: .* times the archive's size"):
        source(workspace).obtain(build)
    assert max(written) < 4 << 20


def test_pages_are_read_until_artifacts_are_older_than_the_range(
    github: LoopbackGitHub, timeline: Timeline, workspace: Workspace, wheel: bytes
) -> None:
    for number in range(310):
        github.add(f"{number:040x}", "2025-06-02T00:00:00Z")
    for index in range(5, 8):
        add(github, timeline, index, wheel)
    for number in range(150):
        github.add(f"{number:040x}", "2025-06-09T00:00:00Z")
    assert len(source(workspace).builds(timeline, range(5, 8))) == 3
    assert github.asked["artifacts"] == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"not a zip", "is damaged: File is not a zip file"),
        (b"", "is damaged"),
        (archive(), r"has no \*\.whl for this platform; it contains nothing"),
        (archive(Path(__file__)), r"has no \*\.whl .* test_artifacts\.py"),
    ],
)
def test_a_damaged_archive_is_unobtainable(
    github: LoopbackGitHub,
    timeline: Timeline,
    workspace: Workspace,
    data: bytes,
    message: str,
) -> None:
    add(github, timeline, 1, data)
    mine = source(workspace)
    [build] = mine.builds(timeline, range(1, 2))
    with pytest.raises(Unobtainable, match=message):
        mine.obtain(build)
    assert not [
        path
        for path in workspace.home.toolchains.iterdir()
        if not path.name.endswith(".lock")
    ]


def test_a_short_rate_limit_is_waited_for_and_a_long_one_reported(
    github: LoopbackGitHub, timeline: Timeline, workspace: Workspace, wheel: bytes
) -> None:
    add(github, timeline, 1, wheel)
    github.refusals = [(429, {"Retry-After": "1"}), (502, {})]
    assert len(source(workspace).builds(timeline, range(1, 2))) == 1
    github.refusals = [
        (
            403,
            {
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": str(int(time.time()) + 1800),
            },
        )
    ]
    with pytest.raises(EnvironmentFailure, match="403 Forbidden"):
        source(workspace).builds(timeline, range(1, 2))
