"""Bisects between releases on branches, whose commits are known from tags or from the
compilers: a confirmed culprit is always a true one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.bisect.branched import Compilers, bisect, is_true
from tests.git_history.history import History
from triage.bisect.result import Answer, BisectKind
from triage.model.errors import BadInput


def search_one(seed: int, folder: Path) -> bool | None:
    """Bisect between two branches of a random history, and return whether a culprit is
    confirmed; None if the ends of the branches are alike.
    """
    randomly = random.Random(seed)
    history = History.begin(folder / "repo")
    letters: dict[str, str] = {}
    parents: dict[str, str | None] = {}

    def grow(branch: str, parent: str | None, count: int) -> list[str]:
        """Commit on a branch, after another commit if there is one."""
        if parent:
            history.git("switch", "--quiet", "--create", branch, parent)
        shas = []
        for _ in range(count):
            text = str(len(letters))
            sha = history.commit(f"Change {text}", {f"part{text}.cpp": text})
            state = letters[parent] if parent else "P"
            flipped = {"P": "F", "F": "P", "U": "P"}[state]
            letters[sha] = randomly.choices([state, flipped, "U"], [7, 2, 1])[0]
            parents[sha] = parent
            parent = sha
            shas.append(sha)
        return shas

    main = grow("main", None, randomly.randint(6, 14))
    old, new = (
        grow(f"release/{name}", randomly.choice(main), randomly.randint(1, 6))[-1]
        for name in "12"
    )
    if {letters[old], letters[new]} != {"P", "F"}:
        return None
    releases = {"1.0.0": old, "2.0.0": new}
    compilers = Compilers(folder / "repo", letters, releases, folder, reported=True)
    kind = BisectKind.REGRESSION if letters[old] == "P" else BisectKind.FIX
    try:
        answer = bisect(compilers, "1.0.0", "2.0.0", kind)
    except BadInput:  # the new end left the main line before the old one
        return None
    is_culprit = answer.status is Answer.CULPRIT
    assert not is_culprit or is_true(answer, letters, parents), (seed, answer)
    return is_culprit


@pytest.mark.parametrize("count", [12, pytest.param(120, marks=pytest.mark.slow)])
def test_a_confirmed_culprit_of_a_branched_history_is_true(
    count: int, tmp_path: Path
) -> None:
    answers = [search_one(seed, tmp_path / str(seed)) for seed in range(count)]
    assert answers.count(True) >= count // 12, answers


@pytest.fixture(scope="module")
def releases(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[History, dict[str, str]]:
    """Two release branches, as Triton names them. 3.1.0 left main after change 2, and
    has a revert; 3.2.0 left it after 4, with a cherry-pick of 6 and a commit of its own.
    """
    history = History.begin(tmp_path_factory.mktemp("branched") / "repo")
    shas = {}
    for number in "01234567":
        subject = f"Change {number} (#10{number})"
        shas[number] = history.commit(subject, {f"part{number}.cpp": number})
    history.git("switch", "--quiet", "--create", "release/3.1.x", shas["2"])
    revert = {"part1.cpp": "int part;"}
    shas["revert"] = history.commit('Revert "Change 1 (#101)"', revert)
    history.git("tag", "-a", "-m", "3.1.0", "v3.1.0")
    history.git("switch", "--quiet", "--create", "release/3.2.x", shas["4"])
    history.git("cherry-pick", shas["6"])
    shas["picked"] = history.head()
    shas["own"] = history.commit("Set the version", {"setup.py": "version = '3.2.0'"})
    history.git("tag", "v3.2.0")
    history.git("switch", "--quiet", "main")
    return history, shas


@pytest.mark.parametrize(
    ("failing", "status"),
    [
        ("picked own 6 7", Answer.CULPRIT),
        # only the branch of the old end has the fix: no commit of main is the culprit
        ("0 1 2 3 4 5 6 7 picked own", Answer.SUSPECTS),
    ],
)
def test_a_change_of_one_branch_only(
    releases: tuple[History, dict[str, str]],
    tmp_path: Path,
    failing: str,
    status: Answer,
) -> None:
    history, shas = releases
    letters = {sha: "PF"[name in failing.split()] for name, sha in shas.items()}
    tags = {"3.1.0": shas["revert"], "3.2.0": shas["own"]}
    compilers = Compilers(history.path, letters, tags, tmp_path)
    found = bisect(compilers, "3.1.0", "3.2.0")
    assert (found.status, found.confirmed) == (status, status is Answer.CULPRIT)
    [suspect] = found.suspects
    if found.confirmed:
        assert suspect.commit == shas["picked"]
        assert is_true(found, letters, {shas["picked"]: shas["4"]})
    else:
        assert found.before
        assert found.before.name == "3.1.0"
        assert "the branch of the old end, whose commits" in suspect.reasons[0]


def test_a_release_without_one_commit_of_its_tags_is_refused(
    releases: tuple[History, dict[str, str]], tmp_path: Path
) -> None:
    history, shas = releases
    compilers = Compilers(history.path, {}, {"3.1.0": "", "3.3.0": ""}, tmp_path)
    with pytest.raises(BadInput, match="has no tag of it"):
        bisect(compilers, "3.1.0", "3.3.0")
    history.git("tag", "letters-3.1.0", shas["2"])
    with pytest.raises(BadInput, match="tags of different commits"):
        bisect(compilers, "3.1.0", "main")
    history.git("tag", "--delete", "letters-3.1.0")
