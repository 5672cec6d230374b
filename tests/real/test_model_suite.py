"""Tests of whole models in the form of IREE's own are compiled, run, compared and
measured on a real release.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Asked
from tests.toolchains.loopback import serve

pytestmark = pytest.mark.real

MODEL = """
module @model {
  util.global private @w = #stream.parameter.named<"model"::"w"> : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %w = util.global.load @w : tensor<4xf32>
    %y = arith.addf %x, %w : tensor<4xf32>
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
SEED = 42
WEIGHTS = np.random.default_rng(SEED).normal(0.0, 0.01, 4).astype("f4")


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"// a test\n{json.dumps(content, indent=2)}\n")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What the server has."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "model.mlir").write_text(MODEL)
    np.save(folder / "right.npy", WEIGHTS + 1)
    np.save(folder / "wrong.npy", WEIGHTS + 3)
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
    weights = {
        "type": "random",
        "scope": "model",
        "module": "modules/model",
        "seed": SEED,
    }
    run = {
        "type": "quality",
        "markers": ["cpu"],
        "modules": ["modules/model"],
        "weights": [weights],
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
    asked: Asked, files: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "suite"
    with serve(files) as server:
        url = server.url.removesuffix("/simple/")
        write_suite(suite, url)
        words = ("run", suite, "--suite-config", suite / "tests", "-t", "3.11.0")
        results = asked(*words, code=1)["results"]
    by_name = {entry["case"].removeprefix("tests/"): entry for entry in results}
    seen = {
        name: (entry["status"], entry["failure"] and entry["failure"]["stage"])
        for name, entry in by_name.items()
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
    for name in ("no-weights", "no-program"):
        assert UNREACHABLE in by_name[name]["reason"]
    assert by_name["small"]["metrics"]["dispatches"] == 1
    assert by_name["fast"]["metrics"]["run_ms"] > 0
    assert by_name["many"]["failure"]["signature"] == "metric:dispatches"
    again = asked(*words, code=1)["results"]  # the server is gone
    assert {entry["case"] for entry in again if not entry["cached"]} == {
        "tests/no-program"
    }
