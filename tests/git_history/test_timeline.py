from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.git_history import Timeline, UnknownCommit
from triage.git_history.refs import read_moves
from triage.model.errors import BadInput


def test_commits_are_the_first_parents_oldest_first(history: History) -> None:
    first = history.commit("first")
    history.git("switch", "--quiet", "--create", "side")
    history.commit("on the side")
    history.git("switch", "--quiet", "main")
    second = history.commit("second")
    third = history.merge("side", "Merge pull request #7 from a/side")
    timeline = Timeline(history.path)
    assert [commit.sha for commit in timeline.commits] == [first, second, third]
    assert [commit.parent for commit in timeline.commits] == [None, first, second]
    assert timeline.commits[0].date == "2025-06-01T12:01:00+00:00"
    assert timeline.commits[2].subject == "Merge pull request #7 from a/side"
    assert timeline.commits[1].files == ()


WEIRD = [
    "",
    "tab\tand \\n and \x1b[31m",
    "ünï — 編譯器 🙂",
    "%H %x00 $(rm -rf /)",
    "carriage\rreturn",
    "1\t2\tlooks/like/numstat.c",
    "b48a5955575cf8924ffc191f3b0804976e5738b9",
    "-- --all",
    "two\nlines become one subject\n\nand a body",
]


def test_any_subject_survives_git(history: History) -> None:
    for subject in WEIRD:
        history.commit(subject)
    fresh = Timeline(history.path)
    assert [commit.subject for commit in fresh.commits[:-1]] == WEIRD[:-1]
    assert fresh.commits[-1].subject == "two lines become one subject"


def test_a_folder_without_a_repository_is_refused(tmp_path: Path, history: History) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(BadInput, match="is not in a git repository"):
        Timeline(tmp_path / "plain")
    with pytest.raises(BadInput, match="there is no folder"):
        Timeline(tmp_path / "missing")
    with pytest.raises(BadInput, match="has no commits yet"):
        Timeline(history.path)


def test_unknown_names_get_suggestions(history: History) -> None:
    history.commit("one")
    history.git("tag", "iree-3.5.0rc20250604")
    timeline = Timeline(history.path)
    with pytest.raises(UnknownCommit, match=r"did you mean iree-3\.5\.0rc20250604\?"):
        timeline.place("iree-3.5.0rc20250605")
    with pytest.raises(UnknownCommit, match=r"no commit deadbeef .*git fetch --tags"):
        timeline.place("deadbeef")
    for name in ("", "--all", "a\0b", "HEAD\n", "@{-99}", ":/nothing"):
        with pytest.raises(UnknownCommit):
            timeline.place(name)
    blob = history.git("hash-object", "-w", "--stdin", data=b"no commit")
    with pytest.raises(UnknownCommit):
        timeline.place(blob)


def test_a_shallow_clone_is_completed(history: History, tmp_path: Path) -> None:
    shas = [history.commit(f"c{number}") for number in range(5)]
    subprocess.run(["git", "clone", "-q", "--depth=2", f"file://{history.path}", tmp_path / "clone"], check=True)
    assert len(Timeline(tmp_path / "clone")) == 2
    with pytest.raises(UnknownCommit, match="git fetch --unshallow"):
        Timeline(tmp_path / "clone").place(shas[0])
    subprocess.run(["git", "fetch", "-q", "--unshallow"], cwd=tmp_path / "clone", check=True)
    assert len(Timeline(tmp_path / "clone")) == 5


def test_settings_and_variables_of_the_user_change_nothing(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = history.commit("one", {"a": "1\n" * 20})
    history.git("mv", "a", "b")
    history.commit("rename")
    plain = Timeline(history.path).with_files(range(2))
    for setting in ("log.showSignature=true", "color.ui=always", "diff.renames=false", "diff.external=/bin/false"):
        history.git("config", *setting.split("="))
    history.git("config", "diff.orderFile", "/missing")
    other = History.begin(tmp_path / "other")
    other.commit("elsewhere")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no-index"))
    timeline = Timeline(history.path)
    assert timeline.commits[0].sha == first
    assert timeline.with_files(range(2)) == plain


def test_reading_leaves_the_work_tree_and_the_index_alone(history: History) -> None:
    history.commit("one", {"a": "1"})
    history.commit("two", {"a": "2"})
    history.write("a", "changed by hand")
    os.utime(history.path / "a", (1, 1))  # a refresh of the index would write this down
    before = {path: path.read_bytes() for path in history.path.rglob("*") if path.is_file()}
    timeline = Timeline(history.path)
    timeline.with_files(range(2))
    timeline.between("HEAD~1", "HEAD")
    timeline.tags()
    read_moves(timeline.repository, [commit.sha for commit in timeline.commits], "a")
    assert {path: path.read_bytes() for path in history.path.rglob("*") if path.is_file()} == before


def test_a_subfolder_a_worktree_and_a_bare_clone_are_the_same_line(history: History, tmp_path: Path) -> None:
    history.commit("one", {"folder/a": "1"})
    history.commit("two", {"folder/a": "2"})
    history.git("worktree", "add", "--quiet", str(tmp_path / "tree"))
    subprocess.run(["git", "clone", "-q", "--bare", history.path, tmp_path / "bare.git"], check=True)
    expected = Timeline(history.path).with_files(range(2))
    for path in (history.path / "folder", history.path / ".git", tmp_path / "tree", tmp_path / "bare.git"):
        assert Timeline(path).with_files(range(2)) == expected
