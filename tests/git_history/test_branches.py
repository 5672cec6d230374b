from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import History
from tests.git_history.releases import Releases
from triage.git_history import Branch, Timeline, read_branches
from triage.git_history.branches import MatchedBy


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return Releases.begin(tmp_path_factory.mktemp("branched") / "repo")


@pytest.fixture
def releases(prepared: Releases, tmp_path: Path) -> Releases:
    return prepared.copy(tmp_path / "repo")


def branch_at(history: History, name: str, ref: str = "HEAD") -> Branch | None:
    timeline = Timeline(history.path, ref=ref)
    branches = read_branches(timeline, [(name, timeline.repository.resolve(name))])
    return branches[0] if branches else None


def test_the_originals_of_cherry_picks_are_found(releases: Releases) -> None:
    shas = releases.shas
    expected = {
        "v3.1.0": (4, {"with-line": (7, MatchedBy.LINE), "backport": (9, MatchedBy.PULL_REQUEST), "revert": (None, None)}),
        "v3.2.0": (12, {"changed": (14, MatchedBy.SUBJECT), "squashed": (17, MatchedBy.PULL_REQUEST), "own": (None, None)}),
    }
    for tag, (start, commits) in expected.items():
        branch = branch_at(releases.history, tag)
        assert branch is not None
        assert branch.start.sha == shas[start]
        assert {own.commit.sha: ([one.sha for one in own.originals], own.matched_by) for own in branch.commits} == {
            shas[name]: ([] if number is None else [shas[number]], way) for name, (number, way) in commits.items()
        }


def test_a_release_on_the_main_line_has_no_branch(releases: Releases) -> None:
    assert branch_at(releases.history, "main") is None
    assert branch_at(releases.history, "main~3") is None
