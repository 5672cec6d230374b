"""kill -9 at any step of a bisect loses at most the step."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bisect.tiny_compiler import PROGRAMS, RECIPE, between, repository, write_case

BROKE, COUNT = 9, 16
CALL = "import os\nopen(os.environ['TINYC_CALLS'], 'a').write(__file__ + '\\n')\n"


def calls_in(log: Path) -> list[str]:
    """Return the toolchains that compiled, in order."""
    return [Path(line).parent.name for line in log.read_text().splitlines()]


@pytest.mark.parametrize("kills", [4, pytest.param(15, marks=pytest.mark.slow)])
def test_killed_at_every_step(
    kills: int,
    workplace: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "calls"
    log.touch()
    monkeypatch.setenv("TINYC_CALLS", str(log))
    letters = "P" * BROKE + "F" * (COUNT - BROKE)
    programs = {letter: CALL + text for letter, text in PROGRAMS.items()}
    shas = repository(letters, tmp_path / "clone", programs)
    write_case(workplace, f"{RECIPE}env: [TINYC_CALLS]\n")
    asked = [sys.executable, "-c", "from triage.cli import main; main()", "bisect"]
    asked += ["r.yaml", *between(tmp_path / "clone", shas[0], shas[-1]), "-j", "1"]
    # the pair and the failing end are always probed again
    again = {shas[index][:16] for index in (BROKE - 1, BROKE, COUNT - 1)}
    finished: set[str] = set()
    for number in range(kills + 1):
        before = len(calls_in(log))
        begun = subprocess.Popen(
            [*asked, "--format", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=workplace,
        )
        is_last = number == kills
        steps = (0, 2, 1, 5, 10)[number % 5]
        while not is_last and begun.poll() is None:
            if len(calls_in(log)) > before + steps:
                time.sleep(0.015 * (number % 4))
                begun.send_signal(signal.SIGKILL)
                break
            time.sleep(0.003)
        stdout, stderr = begun.communicate()
        made = [name.split("-")[2] for name in calls_in(log)[before:]]
        assert not (set(made) & finished) - again
        if begun.returncode != -signal.SIGKILL:
            break
        finished |= set(made[:-1])  # one at a time, so that only the last was stopped
    assert begun.returncode == 0, stderr
    found = json.loads(stdout)
    assert found["confirmed"]
    assert found["after"]["commit"] == shas[BROKE]
    assert len(finished) >= 3
