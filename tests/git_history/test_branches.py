from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import History
from tests.git_history.releases import Releases
from triage.git_history import Branch, Timeline, place_of, read_branches
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


def test_commits_know_their_place_on_branches(releases: Releases) -> None:
    branch = branch_at(releases.history, "v3.1.0")
    assert branch is not None
    assert branch.pick_of(releases.shas[9]) == branch.find(releases.shas["backport"])
    assert place_of(releases.shas["revert"], [branch]) == "on the branch of v3.1.0, not on the main line"
    assert place_of(releases.shas[3], [branch]) is None


def test_a_release_on_the_main_line_has_no_branch(releases: Releases) -> None:
    assert branch_at(releases.history, "main") is None
    assert branch_at(releases.history, "main~3") is None


@pytest.mark.parametrize("ref", ["v3.1.0", "v3.2.0", "main"])
def test_the_main_line_does_not_depend_on_what_is_checked_out(releases: Releases, ref: str) -> None:
    expected = branch_at(releases.history, "v3.2.0")
    releases.history.git("switch", "--quiet", "--detach", ref)
    assert branch_at(releases.history, "v3.2.0") == expected


def test_a_pick_of_a_pick_leads_to_the_main_line(releases: Releases) -> None:
    git = releases.history.git
    git("switch", "--quiet", "release/3.2.x")
    releases.pick("first", 16, line=True)
    git("switch", "--quiet", "--create", "release/3.0.x", releases.shas[2])
    git("cherry-pick", "-x", releases.shas["first"])
    branch = branch_at(releases.history, "release/3.0.x")
    assert branch is not None
    [own] = branch.commits
    assert [one.sha for one in own.originals] == [releases.shas[16]]


def test_an_original_that_the_clone_lacks_is_no_commit_of_the_branch_alone(releases: Releases) -> None:
    gone = "0123456789" * 4
    releases.history.git("switch", "--quiet", "release/3.2.x")
    releases.shas["foreign"] = releases.commit(f"Elsewhere\n\n(cherry picked from commit {gone})", {"new.cpp": "int n;\n"})
    branch = branch_at(releases.history, "release/3.2.x")
    assert branch is not None
    own = branch.find(releases.shas["foreign"])
    assert own is not None
    assert ([one.sha for one in own.originals], own.matched_by) == ([gone], MatchedBy.LINE)


def test_a_fork_is_where_the_first_parents_part_even_after_merges(releases: Releases) -> None:
    git = releases.history.git
    git("switch", "--quiet", "release/3.1.x")
    releases.history.merge(releases.shas[8], "Merge main into release/3.1.x")
    timeline = Timeline(releases.history.path, ref="main")
    fork = timeline.fork("release/3.1.x")
    assert fork.index == 4
    assert [fork.line.commits[index].sha for index in fork.own][-1] == releases.history.head()
    assert timeline.place("release/3.1.x").index == 8


def test_a_branch_that_was_merged_back_twice(releases: Releases) -> None:
    """Each commit is on the main line since the first merge that brought it; the last one never got there."""
    git, history = releases.history.git, releases.history
    merges = []
    for number in range(2):
        git("switch", "--quiet", "release/3.1.x")
        history.commit("Of the branch", {f"branch{number}": "x"})
        git("switch", "--quiet", "main")
        merges.append(history.merge("release/3.1.x", "Merge release/3.1.x"))
    git("switch", "--quiet", "release/3.1.x")
    history.commit("Of the branch only", {"branch2": "x"})
    branch = branch_at(history, "release/3.1.x")
    assert branch is not None
    first, second = ([[merge], MatchedBy.MERGE] for merge in merges)
    originals = [[[one.sha for one in own.originals], own.matched_by] for own in branch.commits]
    assert originals == [first, first, first, first, second, [[], None]]
