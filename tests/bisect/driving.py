"""How tests bisect the small compiler: its history, its sources, the command line, what
the answer must be.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bisect.small_compiler import Fate, SmallCompiler

COUNT = 240
CULPRIT = 151
PROJECT = "name: small\ncompiler: iree\nrepository: https://github.com/iree-org/iree\n"
BUILD = """build:
  submodules: false
  env: [TRIAGE_TEST_CALLS]
  configure: cmake -S "$TRIAGE_SOURCE" -B "$TRIAGE_BUILD" -DCMAKE_BUILD_TYPE=Debug -DCOMMIT="$TRIAGE_COMMIT"
  commands:
    - echo "$TRIAGE_COMMIT build" >> "${TRIAGE_TEST_CALLS:-/dev/null}"
    - cmake --build "$TRIAGE_BUILD" --parallel "$TRIAGE_JOBS"
    - cmake --install "$TRIAGE_BUILD" --prefix "$TRIAGE_OUT"
"""
COMMAND = """build:
  commands: {script}
  env: [TRIAGE_TEST_CALLS]
"""
SCRIPT = """#!/bin/sh
set -e
echo "$TRIAGE_COMMIT build" >> "${TRIAGE_TEST_CALLS:-/dev/null}"
mkdir -p "$TRIAGE_OUT/tools"
cc -O0 "-DCOMMIT=\\"$TRIAGE_COMMIT\\"" -o "$TRIAGE_OUT/tools/iree-compile" $(find "$TRIAGE_SOURCE" -name "*.c")
"""


def fates(**special: range | tuple[int, ...]) -> list[Fate]:
    found = [Fate.SOUND] * COUNT
    for name, numbers in special.items():
        for number in numbers:
            found[number] = Fate[name]
    return found


MIXED = fates(
    BROKEN=(*range(20, 40), *range(74, 80), *range(112, 126), 148, *range(160, 166)),
    OTHER=(*range(126, 134), 155, 200),
    CRASH=(140,),
)


def words(
    small: SmallCompiler,
    recipe: Path,
    project: Path,
    *more: str,
    first: int = 0,
    last: int = COUNT - 1,
) -> list[str]:
    # the program finds it in its folder
    assert project.name == "triage.yaml"
    ends = [
        "--good",
        f"commit:{small.shas[first]}",
        "--bad",
        f"commit:{small.shas[last]}",
    ]
    return [
        "bisect",
        str(recipe),
        "--repo",
        str(small.path),
        *ends,
        "--format",
        "json",
        *more,
    ]


def answered(
    done: subprocess.CompletedProcess[str], *, status: int = 0
) -> dict[str, Any]:
    assert done.returncode == status, done.stderr + done.stdout
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def is_culprit(
    found: dict[str, Any],
    small: SmallCompiler,
    *,
    failure: str = "shared-memory-overflow",
) -> bool:
    assert found["status"] == "culprit", found
    assert found["confirmed"]
    assert found["before"]["commit"] == small.shas[small.culprit - 1]
    assert found["after"]["commit"] == small.sha
    [suspect] = found["suspects"]
    assert suspect["pull_request"] == 1000 + small.culprit
    assert found["failure"]["class"] == failure
    return bool(suspect["commit"] == small.sha)


def counted(calls: Path, what: str = "main") -> Counter[str]:
    """How often each commit's compiler ran."""
    lines = (
        (line.split() for line in calls.read_text().splitlines())
        if calls.exists()
        else ()
    )
    return Counter(sha for sha, said in lines if said == what)
