"""A reduction survives kill -9 at any moment: the best program is always on disk."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage
from triage.mlir import parse_module

pytestmark = [pytest.mark.real, pytest.mark.slow]
WORDS = ("reduce", ROOT / "recipes" / "cuda-matmul-f32.yaml", "-t", "3.3.0", "--good", "3.0.0", "--format", "json")


def test_a_reduction_killed_repeatedly_reaches_the_same_program(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    kills = 0
    for attempt in range(40):
        out = tmp_path / "killed"
        command = [sys.executable, "-c", "from triage.cli import main; main()", *map(str, WORDS), "--out", str(out), "--resume"]
        begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            said, _ = begun.communicate(timeout=1.7 + 0.9 * attempt)
            break
        except subprocess.TimeoutExpired:
            os.killpg(begun.pid, signal.SIGKILL)
            begun.communicate()
            kills += 1
        for best in (shared_home / "reductions").glob("*/best.mlir"):
            parse_module(best.read_text())
    assert begun.returncode == 0
    assert kills >= 4
    told = json.loads(said)
    undisturbed = triage(
        *WORDS, "--out", tmp_path / "other", env={**os.environ, "TRIAGE_HOME": str(_twin(shared_home, tmp_path))}
    )
    other = json.loads(undisturbed.stdout)
    assert told["status"] == other["status"] == "reduced"
    assert told["signature"] == other["signature"]
    assert told["operations"]["after"] == other["operations"]["after"]
    with sqlite3.connect(shared_home / "evidence.db") as db:
        twice = db.execute(
            "SELECT group_concat(case_name || ' on ' || toolchain || ' at ' || at) FROM probes GROUP BY key HAVING count(*) > 1"
        ).fetchall()
    assert not twice, "compiled a second time"
    time.sleep(0.3)
    left = subprocess.run(["pgrep", "-f", str(shared_home)], capture_output=True, text=True, check=False).stdout.split()
    assert not left, "compilers outlived the reduction"


def _twin(home: Path, tmp_path: Path) -> Path:
    """A home with the same toolchains and nothing else known."""
    twin = tmp_path / "twin"
    twin.mkdir()
    for name in ("toolchains", "state"):
        (twin / name).symlink_to((home / name).resolve())
    return twin
