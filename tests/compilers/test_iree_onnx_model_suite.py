"""Configs of ONNX models as cases, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from triage.compilers.iree.suite import IreeSuites
from triage.model.case import Reference
from triage.model.execution import Stage

CONFIG = """{
  "config_name": "cpu", // on one thread
  "iree_compile_flags": ["--iree-hal-target-backends=llvm-cpu"],
  "iree_run_module_flags": ["--device=local-sync"],
  "tests_and_expected_outcomes": {
    "default": "skip",
    "tests/model_zoo/zoo/kind_models_test.py::test_models[a/one.onnx]": "pass",
    "tests/model_zoo/zoo/kind_models_test.py::test_models[a/two.onnx]": "fail-import",
    "tests/model_zoo/zoo/kind_models_test.py::test_models[b/three.onnx]": "fail-compile",
    "tests/model_zoo/zoo/kind_models_test.py::test_models[b/four.onnx]": "fail-run",
    "tests/model_zoo/zoo/kind_models_test.py::test_models[b/five.onnx]": "skip",
  }
}
"""


def write_model(path: Path) -> None:
    """A model with a free dimension and a weight that is also an argument."""
    free, weight = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "w"))
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3])
    zeros = numpy_helper.from_array(np.zeros((1, 3), "f4"), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["z"])], "main", [weight, free], [result], [zeros])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(CONFIG)
    return path


def test_outcomes_become_expected_failures(config: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "zoo" / "kind" / "a" / "one.onnx")
    cases = {case.name: case for case in IreeSuites().cases(tmp_path, [config], tmp_path / "downloads")}
    assert {name: [entry.stage for entry in case.expect] for name, case in cases.items()} == {
        "zoo/kind/a/one": [],
        "zoo/kind/a/two": [Stage.IMPORT],
        "zoo/kind/b/three": [Stage.COMPILE],
        "zoo/kind/b/four": [Stage.RUN, Stage.COMPARE],
    }
    local, remote = cases["zoo/kind/a/one"], cases["zoo/kind/a/two"]
    assert (local.artifacts, local.input.path) == ((), tmp_path / "zoo" / "kind" / "a" / "one.onnx")
    assert local.run
    assert len(local.run.inputs) == 1
    assert [str(artifact.source).partition("/main/")[2] for artifact in remote.artifacts] == ["zoo/kind/a/two.onnx"]
    assert remote.input.path == remote.artifacts[0].path
    assert remote.run
    assert remote.run.arguments
    assert remote.run.reference == Reference(onnxruntime=True)
    write_model(remote.input.path)  # as the download does
    assert len(remote.run.with_arguments().inputs) == 1
