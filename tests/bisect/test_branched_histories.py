"""Random histories with release branches, reverts and merges: a confirmed culprit is
always a true one.
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
