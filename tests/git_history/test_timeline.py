"""The first-parent history: positions on it, changed files, branches and picks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.git_history.repository import Repository, UnknownCommit
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
    subjects = [commit.subject for commit in Timeline(Repository(history.path)).commits]
    assert subjects == [*WEIRD[:-1], "two lines become one subject"]


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        (".", "is not in a git repository"),
        ("missing", "there is no folder"),
        ("repo", "no branch, tag or commit 'HEAD'"),
    ],
)
def test_a_folder_without_a_repository_is_refused(
    folder: str, why: str, tmp_path: Path, history: History
) -> None:
    with pytest.raises(BadInput, match=why):
        Timeline(Repository(tmp_path / folder))


def test_names_that_git_does_not_know(history: History) -> None:
    history.commit("one")
    timeline = Timeline(Repository(history.path))
    blob = history.git("hash-object", "-w", "--stdin", data=b"no commit")
    for name in ("", "--all", "a\0b", "HEAD\n", "@{-99}", ":/nothing", blob):
        with pytest.raises(UnknownCommit):
            timeline.position_of(name)
    why = "no branch, tag or commit 'deadbeef' .*git fetch --tags"
    with pytest.raises(UnknownCommit, match=why):
        timeline.position_of("deadbeef")


def test_commits_of_the_line_are_exact_and_those_of_a_branch_are_placed_where_it_left(
    history: History,
) -> None:
    """main: a b c(merge of side) d; side: s, from a; release: r1 r2, from b; other:
    without a common commit.
    """
    first = history.commit("a")
    history.git("switch", "--quiet", "--create", "side")
    side = history.commit("s")
    history.git("switch", "--quiet", "main")
    second = history.commit("b")
    history.git("switch", "--quiet", "--create", "release")
    history.commit("r1")
    release = history.commit("r2")
    history.git("tag", "--annotate", "--message=x", "v1.0")
    history.git("switch", "--quiet", "main")
    history.merge("side")
    newest = history.commit("d")
    history.git("switch", "--quiet", "--orphan", "other")
    history.commit("o")
    history.git("switch", "--quiet", "main")
    timeline = Timeline(Repository(history.path))
    assert timeline.position_of(second) == CommitPosition(1, second)
    for name in ("main", "HEAD"):
        assert timeline.position_of(name) == CommitPosition(3, newest)
    for name in ("release", "v1.0"):
        assert timeline.position_of(name) == CommitPosition(1, release, exact=False)
    # What a merge brought in was written on top of the commit it left from.
    assert timeline.position_of("side") == CommitPosition(0, side, exact=False)
    with pytest.raises(BadInput, match="no first-parent history in common"):
        timeline.position_of("other")
    for old, new in (("main", first), (second, "release")):
        with pytest.raises(BadInput, match="is not older than"):
            timeline.between(old, new)


def test_the_newest_commit_of_a_day(history: History) -> None:
    for day in ("2025-06-01", "2025-06-03", "2025-06-03", "2025-06-07"):
        history.commit(day, date=f"{day}T23:30:00-02:00")  # the next day, in UTC
    timeline = Timeline(Repository(history.path))
    assert timeline.newest_at("2025-06-03") == 0
    assert timeline.newest_at("2025-06-04") == 2
    with pytest.raises(BadInput, match="no commit is as old as 2025-06-01"):
        timeline.newest_at("2025-06-01")
    with pytest.raises(BadInput, match="is not a date"):
        timeline.newest_at("last tuesday")


def test_the_files_that_a_commit_changes(history: History) -> None:
    weird = ["ünï cødé/編.mlir", "tab\tand\nline", "-"]
    history.commit("root", {"a.c": "1\n2\n", **dict.fromkeys(weird, "x\n")})
    history.commit("binary and text", {"a.c": "1\n3\n4\n", "blob": b"\0\1\2" * 100})
    history.commit("nothing")
    history.git("rm", "--quiet", "a.c")
    history.commit("gone")
    files = [
        set(one.files)
        for one in Timeline(Repository(history.path)).with_files(range(4))
    ]
    assert files == [{"a.c", *weird}, {"a.c", "blob"}, set(), {"a.c"}]


def test_a_linked_work_tree_belongs_to_its_clone(
    history: History, tmp_path: Path
) -> None:
    sha, linked = history.commit("one"), tmp_path / "linked"
    history.git("worktree", "add", "--quiet", "--detach", str(linked))
    timeline = Timeline(Repository(linked))
    assert (timeline.head, timeline.repository.work_tree) == (sha, linked)
    assert timeline.repository.common_dir == history.path / ".git"
    (linked / ".git").write_text("gitdir: nowhere\n")
    with pytest.raises(BadInput, match="is not in a git repository"):
        Timeline(Repository(linked))
