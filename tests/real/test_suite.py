"""A suite in the form of IREE's own is compiled, run and compared on a real release, and its lists are updated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.real.answers import json_answer

pytestmark = pytest.mark.real

PROGRAM = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = arith.addf %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
"""
UNKNOWN = """
func.func @f(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> attributes {torch.onnx_meta.opset_version = 19 : si64} {
  %y = torch.operator "onnx.Nope"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  return %y : !torch.vtensor<[2],f32>
}
"""
CONFIG = """{
  "config_name": "cpu",
  "iree_compile_flags": ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"],
  "iree_run_module_flags": ["--device=local-sync"],
  "expected_compile_failures": [
    // to be looked at
    "ops/fine",
    "ops/wrong"
  ],
  "expected_run_failures": [
    "ops/gone",
  ],
}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    for name, program, expected in [
        ("broken", UNKNOWN, "2 2"),
        ("fine", PROGRAM, "2 2"),
        ("wrong", PROGRAM, "2 3"),
    ]:
        test = folder / "ops" / name
        test.mkdir(parents=True)
        (test / "model.mlir").write_text(program)
        (test / "run_module_io_flags.txt").write_text(f"--input=2xf32=1 1\n--expected_output=2xf32={expected}\n")
    (folder / "conftest.py").write_text("")
    (tmp_path / "cpu.json").write_text(CONFIG)
    return folder


def test_the_lists_of_a_config_follow_what_was_seen(shared_home: Path, triage: Triage, suite: Path, tmp_path: Path) -> None:
    config = tmp_path / "cpu.json"
    words = (suite, "--suite-config", config, "-t", "3.13.0")
    dry = json_answer(triage, "expect", "update", *words, "--dry-run")
    assert (dry["written"], config.read_text()) == (False, CONFIG)
    done = triage("expect", "update", *words, "--prune")
    assert done.returncode == 0, done.stderr
    assert f"{config}:11:5" in done.stderr
    wanted = CONFIG.replace('    "ops/fine",\n    "ops/wrong"\n', '    "ops/broken"\n').replace('"ops/gone"', '"ops/wrong"')
    assert config.read_text() == wanted
    answer = json_answer(triage, "run", *words)
    statuses = {entry["case"]: (entry["status"], entry["cached"]) for entry in answer["results"]}
    assert statuses == {"ops/broken": ("xfail", True), "ops/fine": ("passed", True), "ops/wrong": ("xfail", True)}
    assert json_answer(triage, "expect", "update", *words)["files"][0]["changes"] == []
