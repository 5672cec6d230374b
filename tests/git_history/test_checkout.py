"""Builds work in private repositories: the user's repository is only read."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.git_history.checkout import Checkout
from triage.git_history.repository import Repository

Place = Callable[..., Path]


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return mode, time of change and contents of every file and folder below a folder."""
    entries = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        digest = hashlib.sha256(content).hexdigest()
        entries[str(path)] = status.st_mode, status.st_mtime_ns, digest
    return entries


@pytest.fixture
def nested(tmp_path: Path) -> History:
    """A repository with three commits, each with another commit of a submodule that has
    a submodule itself.
    """
    inner = History.begin(tmp_path / "inner")
    inner.commit("inner", {"inner.txt": "inner"})
    part = History.begin(tmp_path / "part")
    part.commit("part")
    part.git("submodule", "--quiet", "add", "../inner", "deep/inner")
    shas = [
        part.commit(f"part {number}", {"number": str(number)}) for number in range(3)
    ]
    whole = History.begin(tmp_path / "whole")
    whole.commit("root", {"file": "0"})
    whole.git("submodule", "--quiet", "add", str(part.path), "third_party/part")
    for number, sha in enumerate(shas):
        whole.git("-C", "third_party/part", "checkout", "--quiet", sha)
        whole.commit(f"whole {number}", {"file": str(number)})
    whole.git("submodule", "--quiet", "update", "--init", "--recursive")
    whole.git("tag", "v1", "HEAD~1")
    return whole


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Check out a commit of a repository in a folder of the program, and return the
    folder.
    """

    def check_out(repository: Path, sha: str, name: str = "source") -> Path:
        with (tmp_path / "log").open("wb") as log:
            checkout = Checkout(
                tmp_path / "home" / name, Repository(repository), log, threading.Event()
            )
            checkout.check_out(sha, submodules=True)
        return checkout.folder

    (tmp_path / "home").mkdir()
    return check_out


def contents(folder: Path) -> tuple[str, str, str]:
    part = folder / "third_party" / "part"
    return (
        (folder / "file").read_text(),
        (part / "number").read_text(),
        (part / "deep/inner/inner.txt").read_text(),
    )


def shas_of(history: History) -> list[str]:
    return history.git("rev-list", "--reverse", "HEAD").split()


def clone(history: History, folder: Path, *words: str) -> Path:
    history.git("clone", "--quiet", *words, history.path.as_uri(), str(folder))
    return folder


def test_the_users_repository_is_only_read_and_its_objects_are_borrowed(
    nested: History, place: Place
) -> None:
    before = snapshot(nested.path)
    for number, sha in reversed(list(enumerate(shas_of(nested)[1:]))):
        assert contents(place(nested.path, sha)) == (str(number), str(number), "inner")
    assert snapshot(nested.path) == before
    source = place(nested.path, "v1")
    assert History(source).git("describe", "--tags") == "v1"
    for part in ("", "third_party/part", "third_party/part/deep/inner"):
        objects = (source / part / ".git" / "objects").rglob("*")
        copied = [path for path in objects if path.is_file()]
        assert all("info" in path.parts for path in copied)  # others are borrowed


@pytest.mark.parametrize(
    "word", ["--filter=blob:none", "--depth=2"], ids=["partial", "shallow"]
)
def test_every_kind_of_clone_serves(
    nested: History, place: Place, tmp_path: Path, word: str
) -> None:
    nested.git("config", "uploadpack.allowFilter", "true")
    user = clone(nested, tmp_path / "user", word, "--no-checkout")
    before = snapshot(user), snapshot(nested.path)
    for number in "21":
        source = place(user, shas_of(nested)[int(number) + 1])
        assert contents(source) == (number, number, "inner")
    assert (snapshot(user), snapshot(nested.path)) == before
