"""Tests of single Torch operations in the form of IREE's own are run on a real release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Triage
from tests.real.answers import json_answer

pytestmark = pytest.mark.real

PROGRAM = """
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %z = arith.addf %x, %y : tensor<2x2xf32>
  return %z : tensor<2x2xf32>
}
"""
CONFIG = {
    "config_name": "cpu",
    "iree_compile_flags": ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"],
    "iree_run_module_flags": [],
    "expected_run_failures": ["Add/expected", "Add/gone"],
    "golden_times_ms": {"Add/fast": 60000, "Add/slow": 1e-9},
}


def write_test(suite: Path, name: str, expected: np.ndarray | None, **keys: Any) -> None:
    folder = suite / "generated" / "Add" / name
    folder.mkdir(parents=True)
    (folder / "test.mlir").write_text(PROGRAM)
    formula = {"shape": [2, 2], "dtype": "float32", "coeff": 2, "offset": -1}
    content = {"flat_args": [{"Formula": formula}] * 2, "seed": 3, "equal_nan": False, "mode": "benchmark", **keys}
    if expected is not None:
        np.save(folder / "expected.npy", expected)
        content |= {"mode": "compare", "expected_output": [{"url": None, "value": "expected.npy"}]}
    (folder / "run_module_io.json").write_text(json.dumps(content, indent=2))


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    random = np.random.RandomState(3)
    right: np.ndarray = sum((2 * random.rand(2, 2) - 1).astype("f4") for _ in range(2))  # type: ignore[assignment]
    write_test(folder, "right", right)
    write_test(folder, "wrong", right * [1, 1.01])
    write_test(folder, "close", right * [1, 1.01], rtol=0.1, atol=1e-8)
    write_test(folder, "expected", right + 1)
    write_test(folder, "fast", None)
    write_test(folder, "slow", None)
    (folder / "conftest.py").write_text("")
    (tmp_path / "cpu.json").write_text(json.dumps(CONFIG, indent=2))
    return folder


def test_torch_operations_are_compared_and_measured(shared_home: Path, triage: Triage, suite: Path, tmp_path: Path) -> None:
    words = (suite / "generated", "--suite-config", tmp_path / "cpu.json", "-t", "3.11.0")
    results = json_answer(triage, "run", *words, code=1)["results"]
    seen = {entry["case"]: (entry["status"], entry["failure"] and entry["failure"]["stage"]) for entry in results}
    assert seen == {
        "Add/right": ("passed", None),
        "Add/wrong": ("failed", "compare"),
        "Add/close": ("passed", None),
        "Add/expected": ("xfail", "compare"),
        "Add/fast": ("passed", None),
        "Add/slow": ("failed", "benchmark"),
    }
    [wrong] = [entry["failure"] for entry in results if entry["case"] == "Add/wrong"]
    assert (wrong["class"], wrong["details"]["element"], wrong["details"]["mismatches"]) == ("wrong-result", 1, 2)
    update = json_answer(triage, "expect", "update", *words, "--prune", "--dry-run")
    assert {change["case"] for change in update["files"][0]["changes"]} == {"Add/wrong", "Add/slow", "Add/gone"}
