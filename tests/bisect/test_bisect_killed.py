"""kill -9 at any step of a bisect loses at most the step."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.bisect.driving import BUILD, CULPRIT, is_culprit, words
from tests.bisect.small_compiler import SmallCompiler


@pytest.mark.parametrize(
    ("source", "first", "last", "kills", "least_known"),
    [
        ("script", 147, 154, 4, 3),
        pytest.param("build", 100, 199, 15, 5, marks=pytest.mark.slow),
    ],
)
def test_killed_at_every_step(
    misleading: SmallCompiler,
    recipe: Path,
    project: Callable[[str], Path],
    command: Path,
    home: Path,
    calls: Path,
    source: str,
    first: int,
    last: int,
    kills: int,
    least_known: int,
) -> None:
    asked = [sys.executable, "-c", "from triage.cli import main; main()"]
    given = project(BUILD) if source == "build" else command
    asked += words(misleading, recipe, given, "--jobs", "1", first=first, last=last)
    # and the failing end
    pair = {misleading.shas[CULPRIT - 1], misleading.sha, misleading.shas[last]}
    known: set[str] = set()
    whole: set[str] = set()
    calls.touch()
    for number in range(kills + 1):
        before = len(calls.read_text().splitlines())
        begun = subprocess.Popen(
            asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=given.parent,
        )
        # Another moment each time: some steps later, and a little after what was seen
        # of it. The pair is confirmed in one go, by twelve compiles with the failing
        # end.
        steps = (0, 2, 1, 5, 10)[number % 5]
        while (
            number < kills
            and begun.poll() is None
            and len(calls.read_text().splitlines()) <= before + steps
        ):
            time.sleep(0.003)
        if number < kills and begun.poll() is None:
            time.sleep(0.015 * (number % 4))
            begun.send_signal(signal.SIGKILL)
        stdout, stderr = begun.communicate()
        done = [line.split() for line in calls.read_text().splitlines()[before:]]
        assert not [
            sha
            for sha, what in done
            if what == "main" and sha[:10] in known and sha not in pair
        ]
        assert not [sha for sha, what in done if what == "build" and sha in whole]
        if begun.returncode != -signal.SIGKILL:
            break
        known, whole = probed(home), built(home, misleading)
    assert begun.returncode == 0, stderr
    assert number > kills // 2
    assert len(known) >= least_known
    assert {sha[:10] for sha in whole} >= known
    assert is_culprit(json.loads(stdout), misleading)


def probed(home: Path) -> set[str]:
    """The commits whose outcome is on disk, in short."""
    if not (home / "evidence.db").exists():
        return set()
    with closing(sqlite3.connect(home / "evidence.db")) as store:
        try:
            return {name for (name,) in store.execute("SELECT toolchain FROM probes")}
        except sqlite3.OperationalError:
            return set()


def built(home: Path, small: SmallCompiler) -> set[str]:
    """The commits whose compiler is installed."""
    manifests = (home / "toolchains").glob("build-*/toolchain.json")
    names = {manifest.parent.name for manifest in manifests}
    return {sha for sha in small.shas if any(f"-{sha[:16]}-" in name for name in names)}
