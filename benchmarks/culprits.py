"""Count what finding a culprit takes, next to `git bisect run`.

Run: `python -m benchmarks.culprits`. Made repositories of 41 commits hold a compiler
that is one Python file. The peer runs the same compiler, without a check of the ends
and without repeating a test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.common import TRIAGE, Ratio, cost_of
from tests.bisect.test_python_compiler import COPIED
from tests.bisect.test_two_changes import RECIPE, repository
from tests.git_history.history import ENV

BROKE = 27
HISTORIES = {
    "each commit builds": "P" * BROKE + "F" * 14,
    "another failure before": "P" * BROKE + "G" * 6 + "F" * 8,
    "a quarter does not build": "PPPPPPBBBBPPPPBBPPPPBBPPPPPF" + "FFFBBFFFFBBFF",
    "fails in 4 of 5 runs": "P" * BROKE + "S" * 14,
}
TEST = """#!/bin/sh
echo tested >> {calls}
test -f tinyc.py || exit 125
python3 tinyc.py {program} && exit 0
exit 1
"""


class Bisected(NamedTuple):
    """What a bisect cost, and what its answer is worth."""

    cpu: float
    tests: int
    verdict: str


def with_triage(folder: Path, shas: list[str], env: dict[str, str]) -> Bisected:
    """Bisect with triage, which verifies the ends and probes the pair again."""
    (folder / "triage.yaml").write_text(COPIED)
    (folder / "r.yaml").write_text(RECIPE)
    ends = ["--good", f"commit:{shas[0]}", "--bad", f"commit:{shas[-1]}"]
    words = ["bisect", "r.yaml", *ends, "--repo", "clone", "--jobs", "1"]
    command = [*TRIAGE, *words, "--format", "json"]
    done = cost_of(command, cwd=folder, env=env, codes=(0, 3))
    answer = json.loads(done.stdout)
    broke = answer["broke"] or answer
    named = [suspect["commit"] for suspect in broke["suspects"]]
    verdict = "right" if named == [shas[BROKE]] else "WRONG"
    if not broke["confirmed"]:
        verdict = "not sure"
    return Bisected(done.cpu, answer["probes"], verdict)


def with_git(folder: Path, shas: list[str], env: dict[str, str]) -> Bisected:
    """Bisect with `git bisect run`."""
    test, calls, clone = folder / "test.sh", folder / "calls", folder / "clone"
    test.write_text(TEST.format(calls=calls, program=folder / "p.c"))
    test.chmod(0o755)
    start = ["git", "bisect", "start", shas[-1], shas[0]]
    subprocess.run(start, cwd=clone, env=env, check=True, capture_output=True)
    command = ["git", "bisect", "run", str(test)]
    done = cost_of(command, cwd=clone, env=env, codes=(0, 1, 2, 3))
    first = re.search(r"(\w{40}) is the first bad commit", done.stdout)
    tests = len(calls.read_text().splitlines())
    is_right = first and first[1] == shas[BROKE]
    return Bisected(done.cpu, tests, "right" if is_right else "WRONG")


def ratios() -> Iterator[Ratio]:
    """Bisect each history with both."""
    for what, letters in HISTORIES.items():
        with TemporaryDirectory() as place:
            folder = Path(place)
            env = os.environ | ENV | {"TRIAGE_HOME": str(folder / "home")}
            shas = repository(letters, folder / "clone")
            (folder / "p.c").write_text("int x;\n")
            ours = with_triage(folder, shas, env)
            theirs = with_git(folder, shas, env)
        title = f"bisect of 40 commits, {what} ({ours.verdict}, git {theirs.verdict})"
        yield Ratio(title, ours.tests, "git bisect run", theirs.tests, "tests")
        yield Ratio("the same, CPU time", ours.cpu, "git bisect run", theirs.cpu, "s")


if __name__ == "__main__":
    for ratio in ratios():
        print(ratio, flush=True)
