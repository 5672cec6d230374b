"""A small `make torture` with a fixed seed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_the_program_survives_every_attack() -> None:
    command = [sys.executable, "-m", "tests.torture", "--kills", "10", "--seed", "7"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
