"""Compiled programs are run, compared with what they must compute, and timed, on real
compilers and runtimes.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.conftest import ROOT, Asked, Triage
from tests.toolchains.loopback import serve
from tests.values import ELEMENTS, write_matrix
from triage.classify.rules import read_yaml

pytestmark = pytest.mark.real
DATA = ROOT / "tests" / "data" / "real"
RUNS = read_yaml(DATA / "runs.yaml")
PROGRAM = """
func.func @{name}(%values: tensor<4xf32>, %factor: tensor<4xf32>) -> tensor<4xf32> {{
  %result = arith.{operation} %values, %factor : tensor<4xf32>
  return %result : tensor<4xf32>
}}
"""
SCALE = PROGRAM.format(name="scale", operation="mulf")
DIVIDE = PROGRAM.format(name="divide", operation="divf")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with two programs and values."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in {"scale": SCALE, "divide": DIVIDE}.items():
        (folder / f"{name}.mlir").write_text(text)
    np.array([1, 2, 3, 4], "f4").tofile(folder / "values.bin")
    for name, values in {"factor": [2] * 4, "right": [2, 4, 6, 8]}.items():
        np.save(folder / f"{name}.npy", np.array(values, "f4"))
    np.save(folder / "wrong.npy", np.array([2, 4, 7, 8], "f4"))
    return folder


def write_recipe(folder: Path, name: str, program: str, **keys: Any) -> Path:
    path = folder / f"{name}.yaml"
    target = {"backend": "llvm-cpu"}
    # JSON is YAML
    recipe = {"name": name, "input": program, "target": target, **keys}
    path.write_text(json.dumps(recipe))
    return path


def test_programs_are_run_and_compared(asked: Asked, programs: Path) -> None:
    """`iree-run-module` of 3.11.0 accepts NaN for any number."""
    for program in ("scale", "divide"):
        for name, run in RUNS[program].items():
            write_recipe(programs, name, f"{program}.mlir", run=run)

    def results(code: int = 1) -> dict[tuple[str, str], Any]:
        rows = asked("run", programs, "-t", "3.13.0", "-t", "3.11.0", code=code)
        return {(row["case"], row["toolchain"]["name"]): row for row in rows["results"]}

    first, again = results(), results()
    assert len(first) == 14
    for (name, _), row in first.items():
        signature = row["failure"]["signature"] if row["failure"] else row["status"]
        assert signature.startswith(RUNS["failures"].get(name, "passed")), name
    for name, numbers in {
        "wrong": {"element": 2, "actual": 6, "expected": 7, "mismatches": 1, "nan": 0},
        "nan": {"element": 0, "mismatches": 2, "nan": 2, "elements": 4},
    }.items():
        for version in ("3.13.0", "3.11.0"):
            failure = first[name, version]["failure"]
            assert failure["stage"] == "compare"
            assert numbers.items() <= failure["details"].items()
    assert first["other-type", "3.13.0"]["failure"]["stage"] == "run"
    for key, row in again.items():
        assert row["cached"]
        assert row["failure"] == first[key]["failure"]
    # changed values are compared again
    np.save(programs / "wrong.npy", np.array([2, 4, 6, 8], "f4"))
    assert not results()["wrong", "3.13.0"]["failure"]


DEMOTED = {"f64", "cf128"}  # IREE computes them in fewer bits
LLVM = "target: {backend: llvm-cpu}\n"
XLA = "compiler: xla\ntarget: {backend: cpu}\n"


@pytest.mark.parametrize(
    ("rev", "head", "untested"),
    [
        ("2.9.0", LLVM, {*DEMOTED, *(name for name in ELEMENTS if name[:2] == "f8")}),
        ("3.13.0", LLVM, DEMOTED),
        ("xla:0.10.2", XLA, set()),
    ],
)
def test_each_element_type_comes_back_as_it_was_given(
    asked: Asked, tmp_path: Path, rev: str, head: str, untested: set[str]
) -> None:
    """By whatever way a value is written, expected, computed by a reference or kept."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    names = [name for name in ELEMENTS if name not in untested]
    wrong = write_matrix(folder, names, head, rev.rpartition(":")[2])
    for row in asked("run", folder, "-t", rev, code=1)["results"]:
        if row["case"] in wrong:
            details = row["failure"]["details"]
            assert (details["element"], details["mismatches"]) == (0, 1), row
        else:
            assert row["status"] == "passed", row


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
NOWHERE = "http://127.0.0.1:9"


def test_tests_of_models_are_run_as_they_are(asked: Asked, tmp_path: Path) -> None:
    files, suite = tmp_path / "files", tmp_path / "suite"
    files.mkdir()
    (files / "model.mlir").write_text(MODEL)
    weights = np.random.default_rng(42).normal(0.0, 0.01, 4).astype("f4")
    np.save(files / "right.npy", weights + 1)
    np.save(files / "wrong.npy", weights + 3)
    words = ("run", suite, "--suite-config", suite / "tests", "-t", "3.11.0")
    with serve(files) as server:
        url = server.url.removesuffix("/simple/")
        for name, content in read_yaml(DATA / "model_suite.yaml").items():
            text = json.dumps(content).replace("SERVER", url)
            (suite / name).parent.mkdir(parents=True, exist_ok=True)
            (suite / name).write_text(text.replace("NOWHERE", NOWHERE))
        results = asked(*words, code=1)["results"]
    rows = {row["case"].removeprefix("tests/"): row for row in results}
    assert {
        name: row["failure"]["stage"] if row["failure"] else row["status"]
        for name, row in rows.items()
    } == {
        "right": "passed",
        "wrong": "compare",
        "no-weights": "untestable",
        "no-program": "untestable",
        "fast": "passed",
        "slow": "benchmark",
        "small": "passed",
        "many": "compile",
        "large": "compile",
    }
    for name in ("no-weights", "no-program"):
        assert NOWHERE in rows[name]["reason"]
    assert rows["small"]["metrics"]["dispatches"] == 1
    assert rows["fast"]["metrics"]["run_ms"] > 0
    assert rows["many"]["failure"]["signature"] == "metric:dispatches"
    again = asked(*words, code=1)["results"]  # the server is gone
    missing = [row["case"] for row in again if not row["cached"]]
    assert missing == ["tests/no-program"]


ZOO = {  # the operation, the expected sum, and what is answered
    "add": ("Add", [5, 7, 9], "passed None None"),
    "wrong": ("Mul", [4, 10, 19], "failed compare wrong-result"),
    "sub": ("Sub", None, "passed None None"),
    "unknown": ("NoSuchOperation", None, "failed import import-error"),
    "broken": ("", None, "xfail import import-error"),
}


def test_a_folder_of_onnx_models_is_run_and_compared(
    asked: Asked, tmp_path: Path
) -> None:
    """With the tools of each release."""
    recipe = write_recipe(
        tmp_path,
        "zoo",
        "zoo/*/model.onnx",
        run={"data": "test_data_set_0"},
        expect="expect.yaml",
    )
    for name, (operation, expected, _) in ZOO.items():
        model = tmp_path / "zoo" / name / "model.onnx"
        data = model.with_name("test_data_set_0")
        model.parent.mkdir(parents=True)
        if not operation:
            model.write_bytes(b"this is no model")
            continue
        text = f'<ir_version: 8, opset_import: ["": 17]> main (float[3] x, float[3] y) => (float[3] z) {{ z = {operation}(x, y) }}'
        onnx.save(onnx.parser.parse_model(text), model)
        if expected:
            data.mkdir()
            values = {"input_0": [1, 2, 3], "input_1": [4, 5, 6], "output_0": expected}
            for file, numbers in values.items():
                tensor = onnx.numpy_helper.from_array(np.array(numbers, "f4"))
                onnx.save_tensor(tensor, data / f"{file}.pb")
    (tmp_path / "expect.yaml").write_text("file=broken:\n  - {stage: import}\n")
    results = asked("run", recipe, "-t", "3.13.0", "-t", "3.11.0", code=1)["results"]
    assert len(results) == 10
    for row in results:
        name = row["case"].removeprefix("zoo[file=").removesuffix("]")
        failure = row["failure"] or {"stage": None, "class": None}
        answer = f"{row['status']} {failure['stage']} {failure['class']}"
        assert answer == ZOO[name][2]
        assert ("run_seconds" in row["metrics"]) is bool(ZOO[name][1])
    update = asked("expect", "update", recipe, "-t", "3.11.0")
    changed = {change["case"] for change in update["files"][0]["changes"]}
    assert changed == {"zoo[file=unknown]", "zoo[file=wrong]"}
    for row in asked("run", recipe, "-t", "3.11.0")["results"]:
        # what cannot be imported is known, but no result
        assert row["cached"] is bool(row["metrics"])


def test_an_interrupted_measurement_prints_what_is_known(programs: Path) -> None:
    recipe = write_recipe(
        programs,
        "scale",
        "scale.mlir",
        bench=[{"function": "scale", "inputs": ["4xf32"] * 2}],
    )
    words = ("bench", recipe, "-t", "3.11.0", "-t", "3.13.0", "--format", "json")
    # prints a line for each round, not one in ten seconds
    program = (
        "import triage.cli.command; triage.cli.command._LOG_INTERVAL = 0; "
        "from triage.cli import main; main()"
    )
    command = [sys.executable, "-c", program, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen(command, text=True, cwd=programs, **pipes)
    assert running.stderr
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


@pytest.mark.skipif(
    not Path("/dev/nvidia0").exists(),
    reason="device: cuda is not tested: no NVIDIA GPU (/dev/nvidia0)",
)
def test_a_program_gives_the_same_results_on_a_gpu(
    asked: Asked, tmp_path: Path
) -> None:
    recipes = ROOT / "recipes"
    text = (recipes / "masked-mean.yaml").read_text().partition("expect:\n  - ")[0]
    for old, new in {
        "{backend: llvm-cpu}": "{backend: cuda, chip: sm_86}",
        "run:\n": "run:\n  device: cuda\n",
        "models/": f"{recipes}/models/",
        "@values/": f"@{recipes}/values/",
    }.items():
        text = text.replace(old, new)
    path = tmp_path / "masked-mean.yaml"
    path.write_text(text)
    [result] = asked("run", path, "-t", "3.13.0")["results"]
    assert result["status"] == "passed", result
    assert result["metrics"]["run_seconds"] > 0
