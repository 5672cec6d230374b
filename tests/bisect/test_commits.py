"""Commit bisects over a real git repository, with an engine whose compiler is a
string of letters.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.branched import Compilers, EverySource
from tests.bisect.letters import case_named
from tests.git_history.history import History
from triage.bisect import commits
from triage.bisect.line import BisectRequest, Line
from triage.bisect.result import Answer
from triage.bisect.search import find_changes, whole_search
from triage.git_history.repository import Repository
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
    return Timeline(Repository(history.path))


def line_of(timeline: Timeline, *sources: EverySource) -> Line:
    clone = timeline.repository.path
    project = clone.parent / "triage.yaml"
    project.write_text("name: letters\ncompiler: iree\npaths: ['!notes.txt']\n")
    shas = [commit.sha for commit in timeline.commits]
    letters = dict(zip(shas, LETTERS, strict=True))
    engine = Compilers(clone, letters, {}, clone)
    request = BisectRequest(engine, case_named("case"), clone)  # type: ignore[arg-type]
    old, new = commits.LineEnd(shas[0]), commits.LineEnd(shas[-1])
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(project.parent)
        patched.setattr(commits, "sources_of", lambda *_: sources)
        return commits.plan_commits(request, old, new).line


def test_a_culprit_is_described_and_what_cannot_change_the_compiler_is_no_candidate(
    timeline: Timeline,
) -> None:
    line = line_of(timeline, EverySource([17]))
    found = find_changes(whole_search(line))
    asked = line.request.engine.asked  # type: ignore[attr-defined]
    # the package of 18, which is the same, is taken
    assert (found.status, found.confirmed) == (Answer.CULPRIT, True)
    [culprit] = found.suspects
    assert (culprit.commit, culprit.pull_request) == (timeline.commits[17].sha, 117)
    assert culprit.url == "https://github.com/owner/project/pull/117"
    assert culprit.files == ("compiler/part2.cpp",)
    assert len(set(asked)) <= 9  # both ends, and log2(39) + 1 others
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
    bring = line_of(timeline, *sources).candidates[4].ref.bring
    assert bring is not None
    return bring()


def test_a_source_that_fails_does_not_end_a_bisect_that_another_serves(
    timeline: Timeline,
) -> None:
    down, expired, working = ServerThatIsDown(), ExpiredSource(), WorkingSource()
    expired.seconds = 0.5  # the cheapest is tried first
    assert obtained(timeline, down, expired, working) == Path("/compilers/5")
    with pytest.raises(EnvironmentFailure, match="does not answer"):
        line_of(timeline, down)
    with pytest.raises(Unobtainable, match="expired: it was removed"):
        obtained(timeline, down, expired)


def test_a_package_that_was_built_from_another_commit_is_not_taken(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = timeline.commits[3].sha
    monkeypatch.setattr(Compilers, "reported_commit", lambda *_: other)
    with pytest.raises(Unobtainable, match=f"built from {other[:10]}, not from"):
        obtained(timeline, WorkingSource())
