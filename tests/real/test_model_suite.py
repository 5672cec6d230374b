"""Tests of whole models in the form of IREE's own are compiled, run, compared and measured on a real release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.conftest import Triage
from tests.real.answers import json_answer
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
PIPELINE = """
module @pipeline {
  func.func private @model.main(%x: tensor<4xf32>) -> tensor<4xf32>
  func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = func.call @model.main(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %z = func.call @model.main(%y) : (tensor<4xf32>) -> tensor<4xf32>
    return %z : tensor<4xf32>
  }
}
"""
FLAGS = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
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
    (folder / "pipeline.mlir").write_text(PIPELINE)
    np.save(folder / "right.npy", WEIGHTS + 1)
    np.save(folder / "wrong.npy", WEIGHTS + 3)
    np.save(folder / "twice.npy", 2 * WEIGHTS + 1)
    return folder


def write_suite(suite: Path, url: str) -> None:
    write(suite / "modules" / "model.json", {"mlir": f"{url}/model.mlir", "compiler_flags": FLAGS})
    write(suite / "modules" / "pipeline.json", {"mlir": f"{url}/pipeline.mlir", "compiler_flags": FLAGS})
    write(suite / "modules" / "gone.json", {"mlir": f"{UNREACHABLE}/model.mlir", "compiler_flags": FLAGS})
    weights = {"type": "random", "scope": "model", "module": "modules/model", "seed": SEED}
    run = {
        "type": "quality",
        "markers": ["cpu"],
        "modules": ["modules/model"],
        "weights": [weights],
        "inputs": [{"value": "4xf32=1"}],
        "run_args": MAIN,
    }
    twice = {"modules": ["modules/model", "modules/pipeline"], "run_args": ["--device=local-sync", "--function=twice"]}
    real = [{"type": "url", "scope": "model", "url": f"{UNREACHABLE}/weights.irpa"}]
    time = {**run, "type": "benchmark", "inputs": [{"value": "4xf32"}]}
    statistics = {"type": "compstat", "markers": [], "module": "modules/model"}
    tests: dict[str, dict[str, Any]] = {
        "right": {**run, "expected_outputs": [{"url": f"{url}/right.npy"}]},
        "wrong": {**run, "expected_outputs": [{"url": f"{url}/wrong.npy"}]},
        "tolerant": {
            **run,
            "expected_outputs": [{"url": f"{url}/wrong.npy"}],
            "run_args": [*MAIN, "--expected_f32_threshold=2.5f"],
        },
        "twice": {**run, **twice, "expected_outputs": [{"url": f"{url}/twice.npy"}]},
        "no-weights": {**run, "weights": real},
        "no-program": {**run, "modules": ["modules/gone"]},
        "fast": {**time, "golden_time_ms": 60000},
        "slow": {**time, "golden_time_ms": 1e-9, "tolerance_factor": 1.5},
        "small": {**statistics, "golden_dispatch_count": 1, "golden_binary_size": 10000000},
        "many": {**statistics, "golden_dispatch_count": 0.5},
        "large": {**statistics, "golden_binary_size": 100},
    }
    for name, content in tests.items():
        write(suite / "tests" / f"{name}.json", content)


def test_tests_of_models_are_run_as_they_are(shared_home: Path, triage: Triage, files: Path, tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    with serve(files) as server:
        url = server.url.removesuffix("/simple/")
        write_suite(suite, url)
        words = ("run", suite, "--suite-config", suite / "tests", "-t", "3.11.0")
        results = json_answer(triage, *words, code=1)["results"]
    seen = {
        entry["case"].removeprefix("tests/"): (entry["status"], entry["failure"] and entry["failure"]["stage"])
        for entry in results
    }
    assert seen == {
        "right": ("passed", None),
        "wrong": ("failed", "compare"),
        "tolerant": ("passed", None),
        "twice": ("passed", None),
        "no-weights": ("untestable", None),
        "no-program": ("untestable", None),
        "fast": ("passed", None),
        "slow": ("failed", "benchmark"),
        "small": ("passed", None),
        "many": ("failed", "compile"),
        "large": ("failed", "compile"),
    }
    by_name = {entry["case"].removeprefix("tests/"): entry for entry in results}
    assert all(UNREACHABLE in by_name[name]["reason"] for name in ("no-weights", "no-program"))
    assert by_name["small"]["metrics"]["dispatches"] == 1
    assert by_name["fast"]["metrics"]["run_ms"] > 0
    assert by_name["many"]["failure"]["signature"] == "metric:dispatches"
    again = json_answer(triage, *words, code=1)["results"]  # the server is gone
    assert {entry["case"] for entry in again if not entry["cached"]} == {"tests/no-program"}


@pytest.mark.slow
def test_tests_in_the_form_of_sharktank_are_run_as_they_are(
    shared_home: Path, triage: Triage, files: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "suite"
    for name in ("zero", "right", "wrong"):
        np.save(files / f"{name}.npy", {"zero": np.ones(4, "f4"), "right": WEIGHTS + 1, "wrong": WEIGHTS + 3}[name])
    (files / "weights.safetensors").write_bytes(_weights())
    with serve(files) as server:
        url = server.url.removesuffix("/simple/")
        run = {"mlir": f"{url}/model.mlir", "compiler_flags": FLAGS, "device": "local-sync", "run_function": "main"}
        run["inputs"] = [{"source": f"{url}/zero.npy"}]
        real = {**run, "real_weights": f"{url}/weights.safetensors"}
        time = {"inputs": ["4xf32"], "device": "local-sync", "benchmark_flags": ["--benchmark_min_time=1x"]}
        tests: dict[str, dict[str, Any]] = {
            "quality/m/right_cpu": {**real, "outputs": [{"source": f"{url}/right.npy"}]},
            "quality/m/wrong_cpu": {**real, "outputs": [{"source": f"{url}/wrong.npy"}], "run_test_expecting_to_fail": True},
            "quality/m/zero_cpu": {**run, "outputs": [{"source": f"{url}/zero.npy"}]},
            "quality/m/gone_cpu": {**run, "real_weights": f"{UNREACHABLE}/weights.irpa"},
            "quality/m/only_cpu": {"mlir": f"{url}/model.mlir", "compiler_flags": FLAGS, "compile_only": True},
            "times/m/right_cpu": {**time, "function_run": "main", "golden_time_ms": {"cpu": 60000}},
            "times/m/zero_cpu": {**time, "function_run": "main", "golden_dispatch": {"cpu": 0.5}},
            "times/m/e2e_cpu": {
                **time,
                "function_run": "twice",
                "modules": ["m_right"],
                "mlir_file_name": "twice.mlir",
                "compile_flags": FLAGS,
            },
        }
        for name, content in tests.items():
            write(suite / f"{name}.json", content)
        (suite / "files").mkdir()
        (suite / "files" / "twice.mlir").write_text(PIPELINE)
        results = json_answer(triage, "run", suite, "--suite-config", suite, "-t", "3.13.0", code=1)["results"]
    seen = {
        entry["case"]: (entry["status"], entry["failure"] and (entry["failure"]["stage"], entry["failure"]["class"]))
        for entry in results
    }
    assert seen.pop("times/m/zero_cpu")[0] == "failed"
    assert seen == {
        "quality/m/right_cpu": ("passed", None),
        "quality/m/wrong_cpu": ("xfail", ("compare", "wrong-result")),
        "quality/m/zero_cpu": ("passed", None),
        "quality/m/gone_cpu": ("untestable", None),
        "quality/m/only_cpu": ("passed", None),
        "times/m/right_cpu": ("passed", None),
        "times/m/e2e_cpu": ("passed", None),
    }
    refused = triage("expect", "update", suite, "--suite-config", suite, "-t", "3.13.0")
    assert refused.returncode == 2


def _weights() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    header += b" " * (-len(header) % 64)
    return len(header).to_bytes(8, "little") + header + WEIGHTS.tobytes()


@pytest.mark.slow
def test_listed_onnx_models_are_compared_with_onnxruntime(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    for name, operation, shape in (("relu", "Relu", [2, 2]), ("unknown", "NoSuchOperation", [])):
        values = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 2])]
        result = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)]
        graph = onnx.helper.make_graph([onnx.helper.make_node(operation, ["x"], ["y"])], "main", values, result)
        path = tmp_path / "zoo" / "kind" / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    outcomes = {"relu": "pass", "unknown": "fail-import"}
    listed = {
        f"tests/model_zoo/zoo/kind_models_test.py::test_models[{name}.onnx]": outcome for name, outcome in outcomes.items()
    }
    write(
        tmp_path / "config.json",
        {
            "config_name": "cpu",
            "iree_compile_flags": FLAGS,
            "iree_run_module_flags": ["--device=local-sync"],
            "tests_and_expected_outcomes": {"default": "skip", **listed},
        },
    )
    words = ("run", tmp_path, "--suite-config", tmp_path / "config.json", "-t", "3.13.0")
    results = {entry["case"]: entry for entry in json_answer(triage, *words, code=0)["results"]}
    assert {name: entry["status"] for name, entry in results.items()} == {
        "zoo/kind/relu": "passed",
        "zoo/kind/unknown": "xfail",
    }
    assert "run_seconds" in results["zoo/kind/relu"]["metrics"]
