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

from benchmarks.common import TRIAGE, Cost, Ratio, cost_of
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


def with_triage(folder: Path, shas: list[str], env: dict[str, str]) -> tuple[Cost, int]:
    """Bisect; return the cost, and the number of probes or, of an answer that is not
    the culprit alone, its negative.
    """
    (folder / "triage.yaml").write_text(COPIED)
    (folder / "r.yaml").write_text(RECIPE)
    ends = ["--good", f"commit:{shas[0]}", "--bad", f"commit:{shas[-1]}"]
    words = ["bisect", "r.yaml", *ends, "--repo", "clone", "--jobs", "1"]
    command = [*TRIAGE, *words, "--format", "json"]
    done = cost_of(command, cwd=folder, env=env, codes=(0, 3))
    answer = json.loads(done.stdout)
    named = [suspect["commit"] for suspect in answer["broke"]["suspects"]]
    probes: int = answer["probes"]
    return done, probes if named == [shas[BROKE]] else -probes


def with_git(folder: Path, shas: list[str], env: dict[str, str]) -> tuple[Cost, int]:
    """Bisect with `git bisect run`; return the cost, and the number of tests or, of a
    wrong answer, its negative.
    """
    test, calls, clone = folder / "test.sh", folder / "calls", folder / "clone"
    test.write_text(TEST.format(calls=calls, program=folder / "p.c"))
    test.chmod(0o755)
    start = ["git", "bisect", "start", shas[-1], shas[0]]
    subprocess.run(start, cwd=clone, env=env, check=True, capture_output=True)
    command = ["git", "bisect", "run", str(test)]
    done = cost_of(command, cwd=clone, env=env, codes=(0, 1, 2, 3))
    first = re.search(r"^(\w{40}) is the first bad commit", done.stdout, re.MULTILINE)
    tests = len(calls.read_text().splitlines())
    if first is None or first[1] != shas[BROKE]:
        return done, -tests
    return done, tests


def ratios() -> Iterator[Ratio]:
    """Bisect each history with both."""
    for what, letters in HISTORIES.items():
        with TemporaryDirectory() as place:
            folder = Path(place)
            env = os.environ | ENV | {"TRIAGE_HOME": str(folder / "home")}
            shas = repository(letters, folder / "clone")
            (folder / "p.c").write_text("int x;\n")
            ours, probes = with_triage(folder, shas, env)
            theirs, tests = with_git(folder, shas, env)
        mine, other = ("right" if count > 0 else "WRONG" for count in (probes, tests))
        title = f"bisect of 40 commits, {what} ({mine}, git {other})"
        yield Ratio(title, abs(probes), "git bisect run", abs(tests), "tests")
        yield Ratio("the same, CPU time", ours.cpu, "git bisect run", theirs.cpu, "s")


if __name__ == "__main__":
    for ratio in ratios():
        print(ratio, flush=True)
