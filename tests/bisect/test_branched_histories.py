"""Random histories with release branches, cherry-picks, reverts and merges: a confirmed
culprit is always a true one.
"""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.bisect.branched import Compilers, bisect, is_true
from tests.git_history.history import History
from triage.bisect.result import Answer, BisectKind
from triage.model.errors import BadInput


@dataclass
class Sketch:
    """A stream for `git fast-import`. A commit's mark is its number, from 1 on;
    `letters`: what it does to the case.
    """

    random: random.Random
    stream: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)

    def commit(
        self, ref: str, parent: int | None, subject: str = "", merged: int | None = None
    ) -> int:
        mark = len(self.letters) + 1
        state = self.letters[parent - 1] if parent else "P"
        known = state if state != "U" else self.random.choice("PF")
        draw = self.random.random()
        self.letters.append(
            "U" if draw < 0.1 else known if draw < 0.8 else {"P": "F", "F": "P"}[known]
        )
        self.subjects.append(subject or f"Change {mark} (#{mark})")
        text = self.subjects[-1]
        who = f"A <a@example.org> {1_748_779_200 + 3600 * mark} +0000"
        lines = [
            f"commit refs/{ref}",
            f"mark :{mark}",
            f"author {who}",
            f"committer {who}",
            f"data {len(text)}",
            text,
        ]
        lines += [f"from :{parent}"] if parent else []
        lines += (
            [f"merge :{merged}"]
            if merged
            else [f"M 100644 inline part{mark % 5}.cpp", "data 4", f"{mark:04}"]
        )
        self.stream.append("\n".join([*lines, ""]))
        return mark

    def line(
        self, ref: str, start: int | None, count: int, others: list[int]
    ) -> list[int]:
        """Some commits after another one: own ones, cherry-picks and reverts of
        `others`, and merges of them.
        """
        marks = [start] if start else []
        for _ in range(count):
            parent, other = (
                (marks[-1] if marks else None),
                self.random.choice(others) if others else None,
            )
            kind = (
                self.random.choice(["own", "own", "pick", "revert", "merge"])
                if other and parent
                else "own"
            )
            subject = self.subjects[(other or 1) - 1] if kind == "pick" else ""
            subject = (
                f'Revert "{self.subjects[(other or 1) - 1]}"'
                if kind == "revert"
                else subject
            )
            marks.append(
                self.commit(ref, parent, subject, other if kind == "merge" else None)
            )
        return marks[1:] if start else marks

    def write(self, folder: Path) -> list[str]:
        """Write the repository; return the sha of each commit."""
        history = History.begin(folder)
        data = "".join(self.stream).encode()
        history.git(
            "fast-import",
            "--quiet",
            "--force",
            f"--export-marks={folder}/marks",
            data=data,
        )
        shas = dict(
            line.split() for line in (folder / "marks").read_text().splitlines()
        )
        return [shas[f":{mark}"] for mark in range(1, len(self.letters) + 1)]


def search_one(seed: int, folder: Path) -> Answer | None:
    """Bisect between two commits of a random history; None where its ends do not fit."""
    sketch = Sketch(random.Random(seed))
    main = sketch.line("heads/main", None, sketch.random.randint(6, 14), [])
    branches = [
        sketch.line(
            f"heads/release/{number}.x",
            sketch.random.choice(main),
            sketch.random.randint(1, 6),
            main,
        )
        for number in (1, 2)
    ]
    if sketch.random.random() < 0.5:  # a branch is merged back
        main += sketch.line("heads/main", main[-1], 3, branches[0])
    shas = sketch.write(folder / "repo")
    letters = dict(zip(shas, sketch.letters, strict=True))
    pools = [
        sketch.random.choices([*branches, main], weights=[3, 3, 1], k=2)
        for _ in range(20)
    ]
    pairs = [
        (sketch.random.choice(first), sketch.random.choice(second))
        for first, second in pools
    ]
    differ = [
        (old, new)
        for old, new in pairs
        if {sketch.letters[old - 1], sketch.letters[new - 1]} == {"P", "F"}
    ]
    if not differ:
        return None
    old, new = differ[0]
    releases = {"1.0.0": shas[old - 1], "2.0.0": shas[new - 1]}
    compilers = Compilers(folder / "repo", letters, releases, folder, reported=True)
    kind = BisectKind.REGRESSION if sketch.letters[old - 1] == "P" else BisectKind.FIX
    try:
        answer = bisect(compilers, "1.0.0", "2.0.0", kind)
    except BadInput:
        return None
    listed = subprocess.run(
        ["git", "-C", str(folder / "repo"), "rev-list", "--parents", "--all"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = (line.split() for line in listed.stdout.splitlines())
    parents = {sha: next(iter(others), None) for sha, *others in rows}
    if answer.status is Answer.CULPRIT:
        assert is_true(answer, letters, parents), (seed, answer)
    elif "U" not in sketch.letters:
        # where a branch of the old end begins, only suspects can be named
        sha: str | None = shas[new - 1]
        while sha and sha != shas[old - 1]:
            sha = parents[sha]
        assert (answer.status, sha) == (Answer.SUSPECTS, None), seed
    return answer.status


@pytest.mark.parametrize("first", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_a_confirmed_culprit_of_a_branched_history_is_true(
    first: int, tmp_path: Path
) -> None:
    answers = [
        search_one(seed, tmp_path / str(seed))
        for seed in range(first, first + (8 if first == 0 else 400))
    ]
    assert answers.count(Answer.CULPRIT) >= len(answers) // 5, answers
