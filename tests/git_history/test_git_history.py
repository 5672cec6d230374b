"""The first-parent history, and private clones in which builds work: the user's
repository is only read.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.git_history.repository import Checkout, Repository, UnknownCommit
from triage.git_history.timeline import CommitPosition, Timeline
from triage.model.errors import BadInput

WEIRD = [
    "",
    "tab\tand \\n and \x1b[31m",
    "ünï — 編譯器 🙂",
    "%H %x00 $(rm -rf /)",
    "two\nlines become one subject\n\nand a body",
]


def timeline_of(folder: Path) -> Timeline:
    return Timeline(Repository(folder))


def test_any_subject_survives_git(history: History) -> None:
    for subject in WEIRD:
        history.commit(subject)
    subjects = [commit.subject for commit in timeline_of(history.path).commits]
    assert subjects == [*WEIRD[:-1], "two lines become one subject"]


def test_what_is_no_repository_and_names_that_git_does_not_know(
    history: History, tmp_path: Path
) -> None:
    sha, linked = history.commit("one"), tmp_path / "linked"
    timeline = timeline_of(history.path)
    blob = history.git("hash-object -w --stdin", data=b"no commit")
    for name in ("", "--all", "a\0b", "HEAD\n", "@{-99}", ":/nothing", blob):
        with pytest.raises(UnknownCommit):
            timeline.position_of(name)
    why = "no branch, tag or commit 'deadbeef' .*git fetch --tags"
    with pytest.raises(UnknownCommit, match=why):
        timeline.position_of("deadbeef")
    # a linked work tree belongs to its clone
    history.git("worktree add --quiet --detach", str(linked))
    timeline = timeline_of(linked)
    assert (timeline.head, timeline.repository.work_tree) == (sha, linked)
    assert timeline.repository.common_dir == history.path / ".git"
    (linked / ".git").write_text("gitdir: nowhere\n")
    History.begin(tmp_path / "empty")
    for folder, why in {
        "linked": "is not in a git repository",
        ".": "is not in a git repository",
        "missing": "there is no folder",
        "empty": "no branch, tag or commit 'HEAD'",
    }.items():
        with pytest.raises(BadInput, match=why):
            timeline_of(tmp_path / folder)


def test_commits_of_the_line_are_exact_and_those_of_a_branch_are_placed_where_it_left(
    history: History,
) -> None:
    """main: a b c(merge of side) d; side: s, from a; release: r1 r2, from b; other:
    without a common commit.
    """
    first = history.commit("a")
    history.git("switch --quiet --create side")
    side = history.commit("s")
    history.git("switch --quiet main")
    second = history.commit("b")
    history.git("switch --quiet --create release")
    history.commit("r1")
    release = history.commit("r2")
    history.git("tag --annotate --message=x v1.0")
    history.git("switch --quiet main")
    history.git("merge --quiet --no-ff -m c side")
    newest = history.commit("d")
    history.git("switch --quiet --orphan other")
    history.commit("o")
    history.git("switch --quiet main")
    timeline = timeline_of(history.path)
    for names, expected in {
        (second,): CommitPosition(1, second),
        ("main", "HEAD"): CommitPosition(3, newest),
        ("release", "v1.0"): CommitPosition(1, release, exact=False),
        # What a merge brought in was written on top of the commit it left from.
        ("side",): CommitPosition(0, side, exact=False),
    }.items():
        assert {timeline.position_of(name) for name in names} == {expected}
    with pytest.raises(BadInput, match="no first-parent history in common"):
        timeline.position_of("other")
    assert timeline.between(first, "main") == range(1, 4)
    for old, new in (("main", first), (second, "release")):
        with pytest.raises(BadInput, match="is not older than"):
            timeline.between(old, new)


def test_the_newest_commit_of_a_day(history: History) -> None:
    for day in ("2025-06-01", "2025-06-03", "2025-06-03", "2025-06-07"):
        history.commit(day, date=f"{day}T23:30:00-02:00")  # the next day, in UTC
    timeline = timeline_of(history.path)
    assert timeline.newest_at("2025-06-03") == 0
    assert timeline.newest_at("2025-06-04") == 2
    for day, why in (("2025-06-01", "is as old as"), ("last tuesday", "is not a date")):
        with pytest.raises(BadInput, match=why):
            timeline.newest_at(day)


def test_the_files_that_a_commit_changes(history: History) -> None:
    weird = ["ünï cødé/編.mlir", "tab\tand\nline", "-"]
    history.commit("root", {"a.c": "1\n2\n", **dict.fromkeys(weird, "x\n")})
    history.commit("binary and text", {"a.c": "1\n3\n4\n", "blob": b"\0\1\2" * 100})
    history.commit("nothing")
    history.git("rm --quiet a.c")
    history.commit("gone")
    commits = timeline_of(history.path).with_files(range(4))
    files = [set(commit.files) for commit in commits]
    assert files == [{"a.c", *weird}, {"a.c", "blob"}, set(), {"a.c"}]


def snapshot(*folders: Path) -> dict[Path, tuple[int, int, bytes]]:
    """Return mode, time of change and contents of all that is in folders."""
    entries = {}
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            status = path.lstat()
            is_file = path.is_file() and not path.is_symlink()
            content = path.read_bytes() if is_file else b""
            entries[path] = status.st_mode, status.st_mtime_ns, content
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
    part.git("submodule --quiet add ../inner deep/inner")
    shas = [part.commit(f"part {text}", {"number": text}) for text in "012"]
    whole = History.begin(tmp_path / "whole")
    whole.commit("root", {"file": "0"})
    whole.git("submodule --quiet add", str(part.path), "third_party/part")
    for number, sha in enumerate(shas):
        whole.git("-C third_party/part checkout --quiet", sha)
        whole.commit(f"whole {number}", {"file": str(number)})
    whole.git("submodule --quiet update --init --recursive")
    whole.git("tag v1 HEAD~1")
    whole.git("config uploadpack.allowFilter true")
    return whole


def check_out(clone: Path, sha: str) -> tuple[Path, str]:
    """Check out a commit of a clone in a folder of the program. Return the folder and
    its contents.
    """
    folder = clone.parent / "home" / "source"
    with (clone.parent / "log").open("wb") as log:
        checkout = Checkout(folder, Repository(clone), log, threading.Event())
        checkout.check_out(sha, submodules=True)
    names = ("file", "third_party/part/number", "third_party/part/deep/inner/inner.txt")
    return folder, " ".join((folder / name).read_text() for name in names)


@pytest.mark.parametrize("kind", ["", "--filter=blob:none", "--depth=2"])
def test_any_kind_of_clone_is_only_read_and_its_objects_are_borrowed(
    nested: History, tmp_path: Path, kind: str
) -> None:
    clone = nested.path
    if kind:
        clone = tmp_path / "user"
        words = ["clone", "--quiet", kind, "--no-checkout"]
        nested.git(*words, nested.path.as_uri(), str(clone))
    before = snapshot(nested.path, clone)
    _, *shas = nested.git("rev-list --reverse HEAD").split()
    for number in "21" if kind else "210":
        folder, contents = check_out(clone, shas[int(number)])
        assert contents == f"{number} {number} inner"
    assert snapshot(nested.path, clone) == before
    if not kind:
        check_out(clone, "v1")
        assert History(folder).git("describe --tags") == "v1"
        for part in ("", "third_party/part", "third_party/part/deep/inner"):
            objects = (folder / part / ".git" / "objects").rglob("*")
            copied = [path for path in objects if path.is_file()]
            assert all("info" in path.parts for path in copied)  # others are borrowed
