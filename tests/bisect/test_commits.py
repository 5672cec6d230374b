"""Commit bisects over a real git repository, with an engine whose compiler is a
string of letters.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.bisect.branched import Compilers, EverySource
from tests.bisect.letters import case_named
from tests.git_history.history import History
from triage.bisect.changes import find_changes
from triage.bisect.commits import LineEnd, commit_line
from triage.bisect.line import BisectRequest, Line
from triage.bisect.result import Answer, Bisection
from triage.bisect.search import whole_search
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.toolchains.sources import Build

COUNT = 40
LETTERS = "P" * 17 + "F" * 23


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    """Forty commits in a line; every third touches only a text file."""
    history = History.begin(tmp_path_factory.mktemp("repo"))
    history.git("remote", "add", "origin", "https://github.com/owner/project")
    for number in range(COUNT):
        name = "notes.txt" if number % 3 == 0 else f"compiler/part{number % 5}.cpp"
        history.commit(f"Change number {number} (#{100 + number})", {name: str(number)})
    return Timeline(history.path)


def compilers_of(timeline: Timeline, letters: str) -> Compilers:
    shas = (commit.sha for commit in timeline.commits)
    folder = timeline.repository.path
    return Compilers(folder, dict(zip(shas, letters, strict=False)), {}, folder)


def line_of(
    timeline: Timeline,
    last: int,
    *sources: EverySource,
    letters: str = "",
    paths: str = "[]",
) -> Line:
    clone = timeline.repository.path
    project = clone.parent / "triage.yaml"
    project.write_text(f"name: letters\ncompiler: iree\npaths: {paths}\n")
    engine = compilers_of(timeline, letters)
    request = BisectRequest(engine, case_named("case"), clone)  # type: ignore[arg-type]
    ends = (LineEnd(timeline.commits[index].sha) for index in (0, last))
    with contextlib.chdir(project.parent):
        return commit_line(request, sources, *ends)


def names(timeline: Timeline, found: Bisection) -> list[int]:
    at = {commit.sha: index for index, commit in enumerate(timeline.commits)}
    return sorted(at[one.commit] for one in found.suspects)


def test_the_culprit_is_confirmed_and_described(timeline: Timeline) -> None:
    line = line_of(timeline, 39, EverySource(seconds=30.0), letters=LETTERS)
    found = find_changes(whole_search(line))
    asked = line.request.engine.asked  # type: ignore[attr-defined]
    assert found.status is Answer.CULPRIT
    assert found.confirmed
    assert names(timeline, found) == [17]
    note = found.suspects[0]
    assert note.pull_request == 117
    assert note.url == "https://github.com/owner/project/pull/117"
    assert note.files == ("compiler/part2.cpp",)
    assert len(set(asked)) <= 9  # both ends, and log2(39) + 1 others


def test_commits_that_cannot_change_the_compiler_are_no_candidates(
    timeline: Timeline,
) -> None:
    paths = "['!notes.txt']"
    line = line_of(timeline, 39, EverySource([17]), letters=LETTERS, paths=paths)
    found = find_changes(whole_search(line))
    asked = line.request.engine.asked  # type: ignore[attr-defined]
    # the package of 18, which is the same, is taken
    assert (found.status, names(timeline, found)) == (Answer.CULPRIT, [17])
    inert = {timeline.commits[index].sha[:10] for index in range(3, COUNT, 3)}
    assert not inert & set(asked)
    shas = [commit.sha for commit in line.candidates[12].commits]
    assert shas == [timeline.commits[index].sha for index in (17, 18)]


class ServerThatIsDown(EverySource):
    name = "server"

    def __call__(self, timeline: Timeline, indices: range) -> list[Build]:
        raise EnvironmentFailure("the server does not answer")


class ExpiredSource(EverySource):
    name = "expired"

    def obtain(self, index: int, package: str | None) -> Path:
        raise Unobtainable("it was removed")


class WorkingSource(EverySource):
    name = "working"

    def obtain(self, index: int, package: str | None) -> Path:
        return Path(f"/compilers/{index}")


def obtained(timeline: Timeline, *sources: EverySource) -> Path:
    """Obtain the compiler of the fifth candidate."""
    bring = line_of(timeline, 9, *sources).candidates[4].ref.bring
    assert bring is not None
    return bring()


def test_a_source_that_fails_does_not_end_a_bisect_that_another_serves(
    timeline: Timeline,
) -> None:
    down, expired, working = ServerThatIsDown(), ExpiredSource(), WorkingSource()
    expired.seconds = 0.5  # the cheapest is tried first
    assert obtained(timeline, down, expired, working) == Path("/compilers/4")
    with pytest.raises(EnvironmentFailure, match="does not answer"):
        line_of(timeline, 9, down)
    with pytest.raises(Unobtainable, match="expired: it was removed"):
        obtained(timeline, down, expired)


def test_a_package_that_was_built_from_another_commit_is_not_taken(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = timeline.commits[3].sha
    monkeypatch.setattr(Compilers, "reported_commit", lambda *_: other)
    with pytest.raises(Unobtainable, match=f"built from {other[:10]}, not from"):
        obtained(timeline, WorkingSource())
