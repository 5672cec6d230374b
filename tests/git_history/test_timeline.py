"""The first-parent history: positions on it, changed files, branches and picks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.git_history.repository import UnknownCommit
from triage.git_history.timeline import CommitPosition, Timeline
from triage.model.errors import BadInput

WEIRD = [
    "",
    "tab\tand \\n and \x1b[31m",
    "ünï — 編譯器 🙂",
    "%H %x00 $(rm -rf /)",
    "two\nlines become one subject\n\nand a body",
]


def test_any_subject_survives_git(history: History) -> None:
    for subject in WEIRD:
        history.commit(subject)
    fresh = Timeline(history.path)
    assert [commit.subject for commit in fresh.commits[:-1]] == WEIRD[:-1]
    assert fresh.commits[-1].subject == "two lines become one subject"


def test_a_folder_without_a_repository_is_refused(
    tmp_path: Path, history: History
) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(BadInput, match="is not in a git repository"):
        Timeline(tmp_path / "plain")
    with pytest.raises(BadInput, match="there is no folder"):
        Timeline(tmp_path / "missing")
    with pytest.raises(BadInput, match="no branch, tag or commit 'HEAD'"):
        Timeline(history.path)


def test_names_that_git_does_not_know(history: History) -> None:
    history.commit("one")
    timeline = Timeline(history.path)
    with pytest.raises(
        UnknownCommit, match=r"no branch, tag or commit 'deadbeef' .*git fetch --tags"
    ):
        timeline.place("deadbeef")
    for name in ("", "--all", "a\0b", "HEAD\n", "@{-99}", ":/nothing"):
        with pytest.raises(UnknownCommit):
            timeline.place(name)
    blob = history.git("hash-object", "-w", "--stdin", data=b"no commit")
    with pytest.raises(UnknownCommit):
        timeline.place(blob)


@pytest.fixture
def branched(history: History) -> dict[str, str]:
    """main: a b c(merge of side) d; side: s, from a; release: r1 r2, from b; other:
    without a common commit.
    """
    shas = {"a": history.commit("a")}
    history.git("switch", "--quiet", "--create", "side")
    shas["s"] = history.commit("s")
    history.git("switch", "--quiet", "main")
    shas["b"] = history.commit("b")
    history.git("switch", "--quiet", "--create", "release")
    shas["r1"], shas["r2"] = history.commit("r1"), history.commit("r2")
    history.git("tag", "--annotate", "--message=x", "v1.0")
    history.git("switch", "--quiet", "main")
    shas["c"] = history.merge("side")
    shas["d"] = history.commit("d")
    history.git("switch", "--quiet", "--orphan", "other")
    shas["o"] = history.commit("o")
    history.git("switch", "--quiet", "main")
    return shas


def test_commits_of_the_line_are_exact_and_those_of_a_branch_are_placed_where_it_left(
    history: History, branched: dict[str, str]
) -> None:
    timeline = Timeline(history.path)
    assert timeline.place(branched["b"]) == CommitPosition(1, branched["b"])
    assert (
        timeline.place("main")
        == timeline.place("HEAD")
        == CommitPosition(3, branched["d"])
    )
    assert timeline.place("release") == CommitPosition(1, branched["r2"], exact=False)
    assert timeline.place("v1.0") == CommitPosition(1, branched["r2"], exact=False)
    # What a merge brought in was written on top of the commit it left from.
    assert timeline.place("side") == CommitPosition(0, branched["s"], exact=False)
    with pytest.raises(BadInput, match="no first-parent history in common"):
        timeline.place("other")
    for old, new in (("main", branched["a"]), (branched["b"], "release")):
        with pytest.raises(BadInput, match="is not older than"):
            timeline.between(old, new)


def test_the_newest_commit_of_a_day(history: History) -> None:
    for day in ("2025-06-01", "2025-06-03", "2025-06-03", "2025-06-07"):
        history.commit(day, date=f"{day}T23:30:00-02:00")  # the next day, in UTC
    timeline = Timeline(history.path)
    assert timeline.newest_at("2025-06-03") == 0
    assert timeline.newest_at("2025-06-04") == 2
    with pytest.raises(BadInput, match="no commit is as old as 2025-06-01"):
        timeline.newest_at("2025-06-01")
    with pytest.raises(BadInput, match="is not a date"):
        timeline.newest_at("last tuesday")


def files(timeline: Timeline, index: int) -> set[str]:
    [commit] = timeline.with_files([index])
    return set(commit.files)


def test_the_files_that_a_commit_changes(history: History) -> None:
    history.commit(
        "root",
        {
            "a.c": "1\n2\n",
            "ünï cødé/編.mlir": "x\n",
            "tab\tand\nline": "x\n",
            "-": "y\n",
        },
    )
    history.commit("binary and text", {"a.c": "1\n3\n4\n", "blob": b"\0\1\2" * 100})
    history.commit("nothing")
    history.git("rm", "--quiet", "a.c")
    history.commit("gone")
    timeline = Timeline(history.path)
    assert files(timeline, 0) == {"a.c", "ünï cødé/編.mlir", "tab\tand\nline", "-"}
    assert files(timeline, 1) == {"a.c", "blob"}
    assert files(timeline, 2) == set()
    assert files(timeline, 3) == {"a.c"}
