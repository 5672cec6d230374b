"""`triage suspects` reads the commits between two revisions, not the whole history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.git_history.history import History
from triage.bisect import suspects
from triage.git_history.repository import Repository

COMMITS, FORK, GOOD, BAD = 3000, 2500, 2700, 2760
LOG = "a.mlir:1:1: error: failed to legalize operation 'x.y'\n"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A long main line, and a branch that picks one of its later commits."""
    history = History.begin(tmp_path_factory.mktemp("long") / "repository")
    stream = [_commit("main", number, f"Change {number}") for number in _numbers()]
    picked = _commit("release", COMMITS + 1, f"Change {GOOD + 20}", f"from :{FORK}\n")
    own = _commit("release", COMMITS + 2, "A change of the branch")
    history.git("fast-import", "--quiet", data="".join([*stream, picked, own]).encode())
    history.git("reset", "--quiet", "--hard", "main")
    for name, place in {
        "old": f"main~{COMMITS - GOOD}",
        "new": f"main~{COMMITS - BAD}",
    }.items():
        history.git("tag", name, place)
    return history


def _numbers() -> range:
    return range(1, COMMITS + 1)


def _commit(branch: str, number: int, subject: str, start: str = "") -> str:
    text = f"{subject} (#{subject.split()[-1]})"
    return (
        f"commit refs/heads/{branch}\nmark :{number}\n"
        f"committer C <c@example.org> {1_600_000_000 + 600 * number} +0000\n"
        f"data {len(text)}\n{text}\n{start}"
        f"M 644 inline lib/file-{number % 7}.cpp\ndata {len(text)}\n{text}\n"
    )


@pytest.mark.parametrize(("good", "bad"), [("old", "new"), ("release", "new")])
def test_the_ranks_are_those_of_the_whole_history_and_little_of_it_is_read(
    history: History,
    triage: Triage,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    good: str,
    bad: str,
) -> None:
    log = tmp_path / "build.log"
    log.write_text(LOG)
    sizes: list[int] = []
    ask = Repository.ask

    def counted(self: Repository, *words: str, **more: Any) -> bytes:
        answer = ask(self, *words, **more)
        sizes.append(len(answer))
        return answer

    monkeypatch.setattr(Repository, "ask", counted)
    ends = ["--good", f"commit:{good}", "--bad", f"commit:{bad}"]
    words = ["suspects", log, "--repo", history.path, *ends, "--format", "json"]
    part, parts = json.loads(triage(*words).stdout), sum(sizes)
    monkeypatch.setattr(suspects, "common_commit", lambda *_: None)
    sizes.clear()
    assert json.loads(triage(*words).stdout) == part
    own = good == "release"  # the commit of the branch that is no pick
    assert len(part["suspects"]) == BAD - (FORK if own else GOOD) + own
    assert parts < sum(sizes) / 2


def test_exchanged_ends_are_refused_as_before(
    history: History, triage: Triage, home: Path, tmp_path: Path
) -> None:
    log = tmp_path / "build.log"
    log.write_text(LOG)
    ends = ["--good", "commit:new", "--bad", "commit:old"]
    done = triage("suspects", log, "--repo", history.path, *ends)
    assert done.returncode == 2
    assert "exchange them" in done.stderr
