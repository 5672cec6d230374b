"""Tests of whole models in the form of IREE's own are compiled, run, compared and
measured on a real release.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Triage
from tests.real.answers import json_answer
from tests.toolchains.loopback import serve

pytestmark = pytest.mark.real

MODEL = """
module @model {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = arith.addf %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"""
FLAGS = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
]
MAIN = ["--device=local-sync", "--function=main"]
UNREACHABLE = "http://127.0.0.1:9"


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"// a test\n{json.dumps(content, indent=2)}\n")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What the server has."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "model.mlir").write_text(MODEL)
    np.save(folder / "right.npy", np.full(4, 2, "f4"))
    np.save(folder / "wrong.npy", np.full(4, 5, "f4"))
    return folder


def write_suite(suite: Path, url: str) -> None:
    write(
        suite / "modules" / "model.json",
        {"mlir": f"{url}/model.mlir", "compiler_flags": FLAGS},
    )
    write(
        suite / "modules" / "gone.json",
        {"mlir": f"{UNREACHABLE}/model.mlir", "compiler_flags": FLAGS},
    )
    run = {
        "type": "quality",
        "markers": ["cpu"],
        "modules": ["modules/model"],
        "inputs": [{"value": "4xf32=1"}],
        "run_args": MAIN,
    }
    real = [{"type": "url", "scope": "model", "url": f"{UNREACHABLE}/weights.irpa"}]
    time = {**run, "type": "benchmark", "inputs": [{"value": "4xf32"}]}
    statistics = {"type": "compstat", "markers": [], "module": "modules/model"}
    tests: dict[str, dict[str, Any]] = {
        "right": {**run, "expected_outputs": [{"url": f"{url}/right.npy"}]},
        "wrong": {**run, "expected_outputs": [{"url": f"{url}/wrong.npy"}]},
        "no-weights": {**run, "weights": real},
        "no-program": {**run, "modules": ["modules/gone"]},
        "fast": {**time, "golden_time_ms": 60000},
        "slow": {**time, "golden_time_ms": 1e-9, "tolerance_factor": 1.5},
        "small": {
            **statistics,
            "golden_dispatch_count": 1,
            "golden_binary_size": 10000000,
        },
        "many": {**statistics, "golden_dispatch_count": 0.5},
        "large": {**statistics, "golden_binary_size": 100},
    }
    for name, content in tests.items():
        write(suite / "tests" / f"{name}.json", content)


def test_tests_of_models_are_run_as_they_are(
    shared_home: Path, triage: Triage, files: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "suite"
    with serve(files) as server:
        url = server.url.removesuffix("/simple/")
        write_suite(suite, url)
        words = ("run", suite, "--suite-config", suite / "tests", "-t", "3.11.0")
        results = json_answer(triage, *words, code=1)["results"]
    seen = {
        entry["case"].removeprefix("tests/"): (
            entry["status"],
            entry["failure"] and entry["failure"]["stage"],
        )
        for entry in results
    }
    assert seen == {
        "right": ("passed", None),
        "wrong": ("failed", "compare"),
        "no-weights": ("untestable", None),
        "no-program": ("untestable", None),
        "fast": ("passed", None),
        "slow": ("failed", "benchmark"),
        "small": ("passed", None),
        "many": ("failed", "compile"),
        "large": ("failed", "compile"),
    }
    by_name = {entry["case"].removeprefix("tests/"): entry for entry in results}
    assert all(
        UNREACHABLE in by_name[name]["reason"] for name in ("no-weights", "no-program")
    )
    assert by_name["small"]["metrics"]["dispatches"] == 1
    assert by_name["fast"]["metrics"]["run_ms"] > 0
    assert by_name["many"]["failure"]["signature"] == "metric:dispatches"
    again = json_answer(triage, *words, code=1)["results"]  # the server is gone
    assert {entry["case"] for entry in again if not entry["cached"]} == {
        "tests/no-program"
    }
