from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.git_history import PinMove, Timeline, pull_request
from triage.git_history.refs import links_of, read_moves


def files(timeline: Timeline, index: int) -> dict[str, tuple[int, int]]:
    [commit] = timeline.with_files([index])
    return {one.path: (one.added, one.removed) for one in commit.files}


def test_changed_files_have_their_sizes(history: History) -> None:
    history.commit("root", {"a.c": "1\n2\n", "ünï cødé/編.mlir": "x\n", "tab\tand\nline": "x\n", "-": "y\n"})
    history.commit("binary and text", {"a.c": "1\n3\n4\n", "blob": b"\0\1\2" * 100})
    history.commit("nothing")
    history.git("rm", "--quiet", "a.c")
    history.commit("gone")
    timeline = Timeline(history.path)
    assert files(timeline, 0) == {"a.c": (2, 0), "ünï cødé/編.mlir": (1, 0), "tab\tand\nline": (1, 0), "-": (1, 0)}
    assert files(timeline, 1) == {"a.c": (2, 1), "blob": (0, 0)}
    assert files(timeline, 2) == {}
    assert files(timeline, 3) == {"a.c": (0, 3)}


def test_a_clone_without_contents_is_not_made_to_fetch_them(history: History, tmp_path: Path) -> None:
    history.commit("root", {"a": "1\n"})
    history.commit("next", {"a": "2\n", "b": "1\n"})
    history.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    command = ["git", "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{history.path}", clone]
    subprocess.run(command, check=True)
    history.path.rename(tmp_path / "moved")  # nothing can be fetched
    assert files(Timeline(clone), 1) == {"a": (0, 0), "b": (0, 0)}


@pytest.fixture
def pinned(history: History, tmp_path: Path) -> tuple[History, list[str]]:
    """A submodule at third_party/llvm that moves in the third commit, and a file with a sha that moves in the fourth."""
    llvm = History.begin(tmp_path / "llvm")
    shas = [llvm.commit("one"), llvm.commit("two")]
    history.commit("root")
    history.git("submodule", "--quiet", "add", str(llvm.path), "third_party/llvm")
    history.git("-C", "third_party/llvm", "checkout", "--quiet", shas[0])
    history.commit("add", {"llvm-hash.txt": shas[0] + "\n"})
    history.git("-C", "third_party/llvm", "checkout", "--quiet", shas[1])
    history.commit("Integrate LLVM", {"x": "1"})
    history.commit("file", {"llvm-hash.txt": shas[1] + "\n"})
    history.git("rm", "--quiet", "--cached", "third_party/llvm")
    history.git("commit", "--quiet", "-m", "drop")
    return history, shas


def test_which_commits_moved_a_pin(pinned: tuple[History, list[str]]) -> None:
    history, (one, two) = pinned
    timeline = Timeline(history.path)
    every = [commit.sha for commit in timeline.commits]
    assert read_moves(timeline.repository, every, "third_party/llvm") == {
        every[1]: PinMove("third_party/llvm", None, one),
        every[2]: PinMove("third_party/llvm", one, two),
        every[4]: PinMove("third_party/llvm", two, None),
    }
    assert read_moves(timeline.repository, every, "llvm-hash.txt") == {
        every[1]: PinMove("llvm-hash.txt", None, one),
        every[3]: PinMove("llvm-hash.txt", one, two),
    }
    assert read_moves(timeline.repository, every, "nothing/here") == {}
    assert files(timeline, 2) == {"third_party/llvm": (1, 1), "x": (1, 0)}


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        ("[GPU] Collapse dimensions (#20320)", 20320),
        ("Merge pull request #7 from a/b", 7),
        ("see (#12) for more", None),
    ],
)
def test_pull_requests(subject: str, number: int | None) -> None:
    assert pull_request(subject) == number


@pytest.mark.parametrize(
    ("remote", "web"),
    [
        ("https://github.com/iree-org/iree.git", "https://github.com/iree-org/iree"),
        ("https://user:secret@github.com/iree-org/iree", "https://github.com/iree-org/iree"),
        ("git@github.com:iree-org/iree.git", "https://github.com/iree-org/iree"),
        ("/srv/git/iree.git", None),
        (None, None),
    ],
)
def test_pages_of_remotes(remote: str | None, web: str | None) -> None:
    links = links_of(remote)
    assert (links.web if links else None) == web
