"""Bisects between releases on branches, with the commits of the releases known from tags."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.bisect.branched import Compilers, bisect, is_true
from tests.bisect.driving import answered
from tests.bisect.letters import case_named
from tests.bisect.test_commits import EverySource
from tests.conftest import Triage
from tests.git_history.releases import Releases
from triage.bisect.history import History
from triage.bisect.result import Answer, Bisection, BisectKind, BranchRevision
from triage.cli.history import read_branches_of
from triage.execution.runner import ProbeJob
from triage.git_history import Timeline
from triage.git_history.branches import MatchedBy
from triage.model.errors import BadInput
from triage.model.revision import Revision
from triage.report.history import HistoryReport
from triage.toolchains.sources.base import Offer

MAIN = range(20)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return Releases.begin(tmp_path_factory.mktemp("branched") / "repo")


def searched(
    releases: Releases, tmp_path: Path, failing: set[int | str], kind: BisectKind = BisectKind.REGRESSION, untestable=()
) -> tuple[Bisection, Compilers]:
    """A bisect from 3.1.0 to 3.2.0. failing: the numbers of changes of main, and names of commits of branches."""
    shas = releases.shas
    letters = {sha: "F" if name in failing else "U" if name in untestable else "P" for name, sha in shas.items()}
    tags = {"3.1.0": shas["revert"], "3.2.0": shas["own"]}
    compilers = Compilers(releases.history.path, letters, tags, tmp_path)
    found = bisect(compilers, "3.1.0", "3.2.0", kind)
    if found.status is Answer.CULPRIT:
        lines = (line.split() for line in releases.history.git("rev-list", "--parents", "--all").splitlines())
        parents = {sha: next(iter(others), None) for sha, *others in lines}
        assert is_true(found, letters, parents)
    return found, compilers


def culprit(found: Bisection) -> str | None:
    assert found.status is Answer.CULPRIT
    return found.suspects[0].commit


def test_a_culprit_that_was_picked_to_the_new_branch(releases: Releases, tmp_path: Path) -> None:
    found, _ = searched(releases, tmp_path, {"changed", "squashed", "own", *range(14, 20)})
    assert culprit(found) == releases.shas["changed"]
    note = found.suspects[0]
    assert note.branch == f"on the branch of 3.2.0, a cherry-pick of {releases.shas[14][:10]} (same subject and author date)"


def test_a_culprit_that_exists_on_the_new_branch_only(releases: Releases, tmp_path: Path) -> None:
    found, _ = searched(releases, tmp_path, {"own"})
    assert culprit(found) == releases.shas["own"]
    assert found.suspects[0].branch == "on the branch of 3.2.0, not on the main line"


def test_a_release_that_has_a_fix_of_its_branch_alone(releases: Releases, tmp_path: Path) -> None:
    """Main has failed since before both branches, so that no commit of main is the culprit."""
    found, _ = searched(releases, tmp_path, {*MAIN, "with-line", "backport", "changed", "squashed", "own"})
    assert (culprit(found), found.kind) == (releases.shas["revert"], BisectKind.FIX)
    assert found.before
    assert found.before.commit == releases.shas["backport"]
    text = found.suspects[0].branch
    assert text == "on the branch of 3.1.0, not on the main line; 3.1.0 has it, 3.2.0 lacks it"


def test_a_pick_whose_original_does_not_have_its_effect(releases: Releases, tmp_path: Path) -> None:
    found, compilers = searched(releases, tmp_path, {*MAIN, "with-line", "changed", "squashed", "own"})
    assert (culprit(found), found.kind) == (releases.shas["backport"], BisectKind.FIX)
    assert found.probes == len(compilers.asked)
    text = found.suspects[0].branch or ""
    nine = releases.shas[9][:10]
    assert text == f"on the branch of 3.1.0, a cherry-pick of {nine} ({MatchedBy.PULL_REQUEST}); 3.1.0 has it, 3.2.0 has {nine}"


def test_a_release_without_one_commit_of_its_tags_is_refused(releases: Releases, tmp_path: Path) -> None:
    compilers = Compilers(releases.history.path, {}, {"3.1.0": "", "3.3.0": ""}, tmp_path)
    with pytest.raises(BadInput, match=r"has no tag v3\.3\.0 or letters-3\.3\.0"):
        bisect(compilers, "3.1.0", "3.3.0")
    releases.history.git("tag", "letters-3.1.0", releases.shas[5])
    try:
        with pytest.raises(BadInput, match="name different commits"):
            bisect(compilers, "3.1.0", "main")
    finally:
        releases.history.git("tag", "--delete", "letters-3.1.0")


@pytest.mark.parametrize("is_broken_again", [True, False])
def test_a_release_branch_that_was_merged_back(releases: Releases, tmp_path: Path, is_broken_again: bool) -> None:
    """The fix of 3.1.0 reached main by a merge. A later change breaks it again, or the merge kept main's side."""
    merged = releases.copy(tmp_path / "merged")
    merged.history.git("switch", "--quiet", "release/3.1.x")
    merged.shas["after"] = merged.commit("Set the version to 3.1.1 (#149)", {"setup.py": "version = '3.1.1'\n"})
    merged.history.git("switch", "--quiet", "main")
    merged.shas["merge"] = merged.history.merge("release/3.1.x", "Merge release/3.1.x (#150)")
    merged.shas["again"] = merged.commit("Change it again (#151)", {"part3.cpp": "int part = 33;\n"})
    merged.shas["last"] = merged.commit("Change another (#152)", {"part4.cpp": "int part = 44;\n"})
    merged.history.git("tag", "v3.3.0")
    broken = {"again", "last"} if is_broken_again else {"merge", "again", "last"}
    failing = {*MAIN, "with-line", "backport", *broken}
    letters = {sha: "F" if name in failing else "P" for name, sha in merged.shas.items()}
    compilers = Compilers(
        merged.history.path, letters, {"3.1.0": merged.shas["revert"], "3.3.0": merged.shas["last"]}, tmp_path
    )
    found = bisect(compilers, "3.1.0", "3.3.0")
    merge = merged.shas["merge"][:10]
    if is_broken_again:
        assert (culprit(found), found.kind) == (merged.shas["again"], BisectKind.REGRESSION)
    else:
        assert (culprit(found), found.kind) == (merged.shas["revert"], BisectKind.FIX)
        text = f"on the branch of 3.1.0, merged to the main line by {merge}; 3.1.0 has it, 3.3.0 has {merge}"
        assert found.suspects[0].branch == text
    [branch] = found.branches
    assert {own.matched_by for own in branch.commits} == {"merge"}


def test_a_fix_that_both_branches_picked(releases: Releases, tmp_path: Path) -> None:
    """3.1.1 and 3.2.0 have picks of 14, and a later commit of the branch of 3.2.0 breaks it again."""
    both = releases.copy(tmp_path / "both")
    both.history.git("switch", "--quiet", "release/3.1.x")
    both.pick("also", 14)
    letters = {sha: "P" if name in ("also", "changed", *range(14, 20)) else "F" for name, sha in both.shas.items()}
    both.history.git("tag", "v3.1.1", both.shas["also"])
    compilers = Compilers(both.history.path, letters, {"3.1.1": both.shas["also"], "3.2.0": both.shas["own"]}, tmp_path)
    found = bisect(compilers, "3.1.1", "3.2.0")
    assert (culprit(found), found.kind) == (both.shas["squashed"], BisectKind.REGRESSION)


class BranchRelease(EverySource):
    """Offers every commit, and a release of a branch that the range does not search."""

    def __init__(self, sha: str) -> None:
        super().__init__()
        self.sha = sha

    def offers(self, timeline: Timeline, indices: range) -> list[Offer]:
        position = timeline.place(self.sha)
        release = [Offer("releases", Revision("3.1.0", self.sha), position, 1.0, "3.1.0")] if position.index in indices else []
        return [*super().offers(timeline, indices), *release]


def test_suspects_and_history_list_the_same_branches(releases: Releases, tmp_path: Path, triage: Triage, home: Path) -> None:
    shas = releases.shas
    found, compilers = searched(releases, tmp_path, {"changed", "squashed", "own"})
    expected = found.branches
    assert [(one.name, one.start.commit, len(one.commits)) for one in expected] == [
        ("3.1.0", shas[4], 3),
        ("3.2.0", shas[12], 3),
    ]
    picked = {one.commit: ([each.commit for each in one.picked_from], one.matched_by) for one in expected[0].commits}
    assert picked == {
        shas["with-line"]: ([shas[7]], "line"),
        shas["backport"]: ([shas[9]], "pull_request"),
        shas["revert"]: ([], None),
    }

    log = tmp_path / "failed.log"
    log.write_text("m.mlir:1:1: error: it failed\n")
    ends = ("--good", "commit:v3.1.0", "--bad", "commit:v3.2.0")
    answer = answered(triage("suspects", log, "--repo", releases.history.path, *ends, "--format", "json"))
    assert [one["commits"] for one in answer["branches"]] == [[vars_of(one) for one in branch.commits] for branch in expected]
    places = {one["commit"]: one["branch"] for one in answer["suspects"]}
    assert places[shas["changed"]] == found.suspects[0].branch.replace("3.2.0", "commit:v3.2.0")
    assert (
        places[shas[9]] == f"cherry-picked to the branch of commit:v3.1.0 as {shas['backport'][:10]} ({MatchedBy.PULL_REQUEST})"
    )
    assert places[shas[5]] is None
    lacking = "on the branch of commit:v3.1.0, not on the main line; commit:v3.1.0 has it, commit:v3.2.0 lacks it"
    assert places[shas["revert"]] == lacking
    assert not places.keys() & {shas["with-line"], shas["backport"]}  # v3.2.0 has their originals

    case = case_named("case")
    jobs = [ProbeJob(case, compilers.resolve(name, "iree")) for name in ("3.1.0", "3.2.0")]
    history = History(case, (Revision("3.1.0"), Revision("3.2.0")), tuple(compilers.probe_all(jobs)), 2)
    branches = read_branches_of(compilers, releases.history.path, [history])
    assert list(HistoryReport([(["3.1.0", "3.2.0"], [history])], branches).shape().branches) == list(expected)


def vars_of(commit: BranchRevision) -> dict[str, object]:
    return json.loads(json.dumps(asdict(commit)))
