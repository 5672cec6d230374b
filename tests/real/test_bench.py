"""Run times of real programs are measured side by side."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real

PROGRAM = """
func.func @double(%values: tensor<64xf32>) -> tensor<64xf32> {
  %sum = arith.addf %values, %values : tensor<64xf32>
  return %sum : tensor<64xf32>
}
func.func @square(%values: tensor<64xf32>) -> tensor<64xf32> {
  %product = arith.mulf %values, %values : tensor<64xf32>
  return %product : tensor<64xf32>
}
"""


@pytest.fixture
def double(tmp_path: Path) -> Path:
    (tmp_path / "two.mlir").write_text(PROGRAM)
    recipe = tmp_path / "double.yaml"
    recipe.write_text(
        "name: double\ninput: two.mlir\ntarget: {backend: llvm-cpu}\nbench: [{function: double, inputs: [64xf32]}]\n"
    )
    return recipe


def test_an_interrupted_measurement_prints_what_is_known(
    double: Path, tmp_path: Path
) -> None:
    words = ("bench", double, "-t", "3.11.0", "-t", "3.13.0", "--format", "json")
    # prints a line for each round, not one in ten seconds
    program = (
        "import triage.cli.command; triage.cli.command._LOG_INTERVAL = 0; "
        "from triage.cli import main; main()"
    )
    command = [sys.executable, "-c", program, *words]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert running.stderr is not None
    # the first rounds only warm up
    rounds = (re.match(r"measure  round (\d+)", line) for line in running.stderr)
    assert any(found and int(found[1]) > 2 for found in rounds)
    running.send_signal(signal.SIGINT)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    answer = json.loads(printed)
    assert answer["partial"]
    assert len(answer["results"]) == 2
    assert any(row["samples"] for row in answer["results"])


@pytest.mark.slow
def test_a_slower_program_is_bisected_to_its_release(triage: Triage) -> None:
    recipe = ROOT / "recipes" / "row-sum.yaml"
    words = ("--metric", "run_seconds", "--good", "3.9.0", "--bad", "3.13.0")
    done = triage("bisect", recipe, *words, "--format", "json")
    answer = json.loads(done.stdout)
    # A machine that is too busy leaves suspects, never a wrong release.
    assert "3.11.0" in {suspect["name"] for suspect in answer["suspects"]}
    if answer["status"] == "culprit":
        ends = answer["before"]["name"], answer["after"]["name"]
        assert (*ends, done.returncode) == ("3.10.0", "3.11.0", 0)
        assert answer["failure"]["signature"] == "metric:run_seconds"
        # halfway between the ends, unless the user says more
        details = answer["failure"]["details"]
        assert 1.1 < float(details["threshold"]) < float(details["low"])
