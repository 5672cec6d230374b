"""Builds work in private repositories: the user's repository is only read."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.git_history.history import ENV, History
from triage.execution.streams import Log
from triage.git_history import Repository
from triage.git_history.checkout import Checkout, FetchFailed, GitRunner
from triage.model.progress import Silent

Place = Callable[..., Path]


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return mode, time of change and contents of every file and folder below a folder."""
    entries = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        entries[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, hashlib.sha256(content).hexdigest())
    return entries


@pytest.fixture
def nested(tmp_path: Path) -> History:
    """A repository with three commits, each with another commit of a submodule that has a submodule itself."""
    inner = History.begin(tmp_path / "inner")
    inner.commit("inner", {"inner.txt": "inner"})
    part = History.begin(tmp_path / "part")
    part.commit("part")
    part.git("submodule", "--quiet", "add", "../inner", "deep/inner")
    shas = [part.commit(f"part {number}", {"number": str(number)}) for number in range(3)]
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
    """Check out a commit of a repository in a folder of the program, and return the folder."""
    refused: dict[str, str] = {}

    def check_out(repository: Path, sha: str, *, stop: threading.Event | None = None, name: str = "source") -> Path:
        checkout = Checkout(tmp_path / "home" / name, Repository(repository))
        with Log(tmp_path / "log") as log:
            env = checkout.environment()
            git = GitRunner(log, env, stop or threading.Event(), Silent().task(""), refused=refused)
            checkout.check_out(git, sha, submodules=True)
        return checkout.folder

    (tmp_path / "home").mkdir()
    return check_out


def contents(folder: Path) -> tuple[str, str, str]:
    part = folder / "third_party" / "part"
    return (folder / "file").read_text(), (part / "number").read_text(), (part / "deep/inner/inner.txt").read_text()


def shas_of(history: History) -> list[str]:
    return history.git("rev-list", "--reverse", "HEAD").split()


def clone(history: History, folder: Path, *words: str) -> Path:
    subprocess.run(["git", "clone", "--quiet", *words, history.path.as_uri(), folder], env=os.environ | ENV, check=True)
    return folder


def test_the_users_repository_is_only_read_and_serves_submodules_offline(nested: History, place: Place, tmp_path: Path) -> None:
    for name in ("part", "inner"):  # nothing can be fetched
        (tmp_path / name).rename(tmp_path / f"{name}-gone")
    before = snapshot(nested.path)
    for number, sha in reversed(list(enumerate(shas_of(nested)[1:]))):
        assert contents(place(nested.path, sha)) == (str(number), str(number), "inner")
    assert snapshot(nested.path) == before
    source = tmp_path / "home" / "source"
    described = subprocess.run(
        ["git", "-C", source, "describe", "--tags"], env=os.environ | ENV, capture_output=True, text=True
    )
    assert described.returncode != 0  # the first commits are before the tag
    place(nested.path, "v1")
    described = subprocess.run(
        ["git", "-C", source, "describe", "--tags"], env=os.environ | ENV, capture_output=True, text=True
    )
    assert described.stdout.strip() == "v1"
    sizes = [path.stat().st_size for path in source.rglob("objects/**/*") if path.is_file() and "info" not in path.parts]
    assert not sizes, "objects are borrowed, not copied"


@pytest.mark.parametrize(
    "kind", ["partial", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bare", "shallow", "worktree", "borrowing"))]
)
def test_every_kind_of_clone_serves(nested: History, place: Place, tmp_path: Path, kind: str) -> None:
    nested.git("config", "uploadpack.allowFilter", "true")
    user = tmp_path / "user"
    match kind:
        case "bare":
            clone(nested, user, "--bare")
        case "shallow":
            clone(nested, user, "--depth=2")
        case "partial":
            clone(nested, user, "--filter=blob:none", "--no-checkout")
        case "worktree":
            nested.git("worktree", "add", "--quiet", "--detach", str(user), "HEAD~1")
        case "borrowing":
            clone(nested, tmp_path / "middle", "--bare", "--reference", str(nested.path))
            subprocess.run(["git", "clone", "--quiet", "--shared", tmp_path / "middle", user], env=os.environ | ENV, check=True)
    before = snapshot(user), snapshot(nested.path)
    for number in (2, 1):
        assert contents(place(user, shas_of(nested)[number + 1])) == (str(number), str(number), "inner")
    assert (snapshot(user), snapshot(nested.path)) == before


@pytest.mark.parametrize(
    "damage", ["HEAD", "index", "config", "modules/third_party/part/HEAD", "modules/third_party/part/index"]
)
def test_a_damaged_private_repository_heals(nested: History, place: Place, damage: str) -> None:
    shas = shas_of(nested)
    source = place(nested.path, shas[2])
    (source / ".git" / damage).write_bytes(b"\0damaged")
    assert contents(place(nested.path, shas[3])) == ("2", "2", "inner")


def test_what_a_killed_git_left_is_removed(nested: History, place: Place, tmp_path: Path) -> None:
    shas = shas_of(nested)
    source = place(nested.path, shas[2])
    left = [source / ".git" / name for name in ("index.lock", "modules/third_party/part/HEAD.lock", "objects/pack/tmp_pack_x")]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    Checkout(source, Repository(nested.path)).unlock()
    assert not [path for path in left if path.exists()]
    assert contents(place(nested.path, shas[3])) == ("2", "2", "inner")


def test_a_refused_fetch_is_not_tried_again(nested: History, place: Place, tmp_path: Path) -> None:
    user = clone(nested, tmp_path / "user")
    shutil.rmtree(tmp_path / "part")
    for _ in range(2):
        with pytest.raises(FetchFailed, match=r"cannot fetch the submodule third_party/part from .*part: .*not .* a git repo"):
            place(user, shas_of(nested)[2])
    assert " fetch --" not in (tmp_path / "log").read_text()
