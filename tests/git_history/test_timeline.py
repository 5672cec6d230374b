from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.git_history.history import History
from triage.git_history import Timeline, UnknownCommit
from triage.git_history.refs import read_moves
from triage.git_history.repository import Repository
from triage.model.errors import BadInput
from triage.toolchains.workspace import StateSection, StateStore


def cache_in(folder: Path) -> StateSection:
    return StateStore(folder / "state.db").section("histories")


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


def test_any_subject_survives_git_and_the_cache(history: History, tmp_path: Path) -> None:
    for subject in WEIRD:
        history.commit(subject)
    fresh = Timeline(history.path, cache_in(tmp_path))
    assert [commit.subject for commit in fresh.commits[:-1]] == WEIRD[:-1]
    assert fresh.commits[-1].subject == "two lines become one subject"
    assert Timeline(history.path, cache_in(tmp_path)).commits == fresh.commits


def test_subjects_that_are_not_utf8_are_read(history: History) -> None:
    history.commit("before")
    history.git("commit", "--quiet", "--allow-empty", "--file=-", data=b"latin \xe9 subject")
    assert Timeline(history.path).commits[-1].subject.startswith("latin ")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.sampled_from(["commit", "branch", "merge", "reset", "switch"]), min_size=1, max_size=14))
def test_the_cached_history_is_always_that_of_git(tmp_path_factory: pytest.TempPathFactory, moves: list[str]) -> None:
    """Whatever happens to the branch between two reads, the cache only saves time."""
    folder = tmp_path_factory.mktemp("moves")
    history = History.begin(folder / "repo")
    history.commit("root")
    sides = 0
    for number, move in enumerate(moves):
        match move:
            case "commit":
                history.commit(f"commit {number}")
            case "branch":
                sides += 1
                history.git("switch", "--quiet", "--create", f"side{sides}")
                history.commit(f"side {number}")
            case "merge":
                other = "main" if history.git("branch", "--show-current") != "main" else f"side{sides}"
                if sides:
                    history.merge(other)
            case "reset" if len(Timeline(history.path)) > 1:
                history.git("reset", "--quiet", "--hard", "HEAD~1")
            case "switch" if sides:
                history.git("switch", "--quiet", "main" if number % 2 else f"side{sides}")
        expected = history.git("rev-list", "--first-parent", "--reverse", "HEAD").split()
        line = Timeline(history.path, cache_in(folder))
        assert [commit.sha for commit in line.commits] == expected
        assert [commit.parent for commit in line.commits] == [None, *expected[:-1]]


def test_only_new_commits_are_read(history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [history.commit(f"c{number}") for number in range(5)]
    Timeline(history.path, cache_in(tmp_path))
    new = history.commit("new")
    asked: list[tuple[str, ...]] = []
    real = Repository.ask

    def ask(self: Repository, *words: str, **options: object) -> bytes:
        asked.append(words)
        return real(self, *words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Repository, "ask", ask)
    assert Timeline(history.path, cache_in(tmp_path)).commits[-1].sha == new
    assert [words[-2:-1] for words in asked if words[0] == "log"] == [(f"^{old[-1]}",)]
    asked.clear()
    assert len(Timeline(history.path, cache_in(tmp_path), ref=old[2])) == 3
    assert not [words for words in asked if words[0] == "log"]


def test_a_damaged_cache_is_read_again(history: History, tmp_path: Path) -> None:
    shas = [history.commit(f"c{number}") for number in range(5)]
    Timeline(history.path, cache_in(tmp_path))
    (tmp_path / "state.db").write_bytes(b"\xff\xfe\0" * 1000)
    assert [commit.sha for commit in Timeline(history.path, cache_in(tmp_path)).commits] == shas
    cache_in(tmp_path).put(str(history.path / ".git"), [["only", "two fields"]])
    assert [commit.sha for commit in Timeline(history.path, cache_in(tmp_path)).commits] == shas


def test_a_cache_that_cannot_be_written_is_ignored(history: History, tmp_path: Path) -> None:
    history.commit("one")
    (tmp_path / "file").write_text("")
    assert len(Timeline(history.path, cache_in(tmp_path / "file"))) == 1


def test_another_repository_at_the_same_path_is_noticed(tmp_path: Path) -> None:
    one = History.begin(tmp_path / "repo")
    one.commit("of the first")
    Timeline(one.path, cache_in(tmp_path))
    one.path.rename(tmp_path / "gone")
    other = History.begin(tmp_path / "repo")
    other.commit("of the second", date="2024-01-01T00:00:00+00:00")
    [only] = Timeline(other.path, cache_in(tmp_path)).commits
    assert only.subject == "of the second"


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
    cache = cache_in(tmp_path)
    assert len(Timeline(tmp_path / "clone", cache)) == 2
    with pytest.raises(UnknownCommit, match="git fetch --unshallow"):
        Timeline(tmp_path / "clone").place(shas[0])
    subprocess.run(["git", "fetch", "-q", "--unshallow"], cwd=tmp_path / "clone", check=True)
    assert len(Timeline(tmp_path / "clone", cache)) == 5


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
