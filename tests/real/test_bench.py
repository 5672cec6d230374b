"""Run times of real programs are measured side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage

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


def test_functions_are_measured_on_two_releases(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(PROGRAM)
    recipe = tmp_path / "two.yaml"
    recipe.write_text(
        "name: two\ninput: two.mlir\ntarget: {backend: llvm-cpu}\n"
        "bench: [{function: double, inputs: [64xf32]}, {function: square, inputs: [64xf32]}, "
        "{function: cube, inputs: [64xf32]}]\n"
    )
    done = triage("bench", recipe, "-t", "3.11.0", "-t", "3.13.0", "--time", "1s", "--format", "json")
    answer = json.loads(done.stdout)
    cells = {(row["toolchain"]["name"], row["function"]): row for row in answer["results"]}
    assert len(cells) == 6
    for (release, function), row in cells.items():
        if function == "cube":
            assert row["reason"]
            assert row["verdict"] is None
        else:
            assert 0 < row["median"] < 1
            assert (row["verdict"] is None) == (release == "3.11.0")
    assert {size["bytes"] > 0 for size in answer["sizes"]} == {True}
    assert done.returncode in (1, 3)


def test_a_program_without_one_function_needs_names(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(PROGRAM)
    recipe = tmp_path / "two.yaml"
    recipe.write_text("name: two\ninput: two.mlir\ntarget: {backend: llvm-cpu}\n")
    done = triage("bench", recipe, "-t", "3.13.0", "--format", "json")
    assert "bench" in json.loads(done.stdout)["results"][0]["reason"]
    assert done.returncode == 3
