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


def search_one(seed: int, folder: Path) -> Answer | None:
    """Bisect between two commits of a random history; None where its ends do not
    fit.
    """
    randomly = random.Random(seed)
    history = History.begin(folder / "repo")
    letters: dict[str, str] = {}
    parents: dict[str, str | None] = {}

    def line(name: str, start: str | None, count: int) -> list[str]:
        """Commit on a branch, after another commit if there is one."""
        if start:
            history.git("switch", "--quiet", "--force-create", name, start)
        shas = [start] if start else []
        for _ in range(count):
            parent = shas[-1] if shas else None
            state = letters[parent] if parent else "P"
            sha = parent
            if parent and randomly.random() < 0.2:
                sha = history.merge(randomly.choice(list(letters)))
            if sha is None or sha == parent:  # the line has that commit already
                text = str(len(letters))
                sha = history.commit(f"Change {text}", {f"part{text}.cpp": text})
            flipped = {"P": "F", "F": "P", "U": "P"}[state]
            letters[sha] = randomly.choices([state, flipped, "U"], [7, 2, 1])[0]
            parents[sha] = parent
            shas.append(sha)
        return shas[1:] if start else shas

    main = line("main", None, randomly.randint(6, 14))
    first, second = (
        line(f"release/{name}", randomly.choice(main), randomly.randint(1, 6))
        for name in "12"
    )
    main += line("main", main[-1], 3)
    for _ in range(20):
        old, new = map(randomly.choice, randomly.choices([first, second, main], k=2))
        if {letters[old], letters[new]} == {"P", "F"}:
            break
    else:
        return None
    releases = {"1.0.0": old, "2.0.0": new}
    compilers = Compilers(folder / "repo", letters, releases, folder, reported=True)
    kind = BisectKind.REGRESSION if letters[old] == "P" else BisectKind.FIX
    try:
        answer = bisect(compilers, "1.0.0", "2.0.0", kind)
    except BadInput:
        return None
    if answer.status is Answer.CULPRIT:
        assert is_true(answer, letters, parents), (seed, answer)
    elif "U" not in letters.values():
        # where a branch of the old end begins, only suspects can be named
        sha: str | None = new
        while sha and sha != old:
            sha = parents[sha]
        assert (answer.status, sha) == (Answer.SUSPECTS, None), seed
    return answer.status


@pytest.mark.parametrize("first", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_a_confirmed_culprit_of_a_branched_history_is_true(
    first: int, tmp_path: Path
) -> None:
    answers = [
        search_one(seed, tmp_path / str(seed))
        for seed in range(first, first + (6 if first == 0 else 100))
    ]
    assert answers.count(Answer.CULPRIT) >= len(answers) // 5, answers


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
