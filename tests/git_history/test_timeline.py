from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.git_history import Timeline, UnknownCommit
from triage.model.errors import BadInput

WEIRD = [
    "",
    "tab\tand \\n and \x1b[31m",
    "ünï — 編譯器 🙂",
    "%H %x00 $(rm -rf /)",
    "1\t2\tlooks/like/numstat.c",
    "b48a5955575cf8924ffc191f3b0804976e5738b9",
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
    with pytest.raises(UnknownCommit, match=r"no branch, tag or commit 'deadbeef' .*git fetch --tags"):
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
