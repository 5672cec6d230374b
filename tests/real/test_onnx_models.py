"""A folder of ONNX models with test data is imported, compiled, run and compared with
each release's own tools.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import Asked

pytestmark = pytest.mark.real


def write_model(folder: Path, operation: str, expected: np.ndarray | None) -> None:
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
        for name in ("x", "y", "z")
    ]
    graph = helper.make_graph(
        [helper.make_node(operation, ["x", "y"], ["z"])], "main", values[:2], values[2:]
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    if expected is not None:
        data = folder / "test_data_set_0"
        data.mkdir()
        arrays = {
            "input_0": np.array([1, 2, 3]),
            "input_1": np.array([4, 5, 6]),
            "output_0": expected,
        }
        for name, array in arrays.items():
            onnx.save_tensor(
                numpy_helper.from_array(array.astype("f4")), data / f"{name}.pb"
            )


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    write_model(tmp_path / "zoo" / "add", "Add", np.array([5, 7, 9]))
    write_model(tmp_path / "zoo" / "wrong", "Mul", np.array([4, 10, 19]))
    write_model(tmp_path / "zoo" / "sub", "Sub", None)
    write_model(tmp_path / "zoo" / "unknown", "NoSuchOperation", None)
    (tmp_path / "zoo" / "broken").mkdir()
    (tmp_path / "zoo" / "broken" / "model.onnx").write_bytes(b"this is no model")
    (tmp_path / "expect.yaml").write_text("file=broken:\n  - {stage: import}\n")
    path = tmp_path / "zoo.yaml"
    path.write_text(
        "name: zoo\ninput: zoo/*/model.onnx\ntarget: {backend: llvm-cpu}\nrun: {data: test_data_set_0}\nexpect: expect.yaml\n"
    )
    return path


def test_a_folder_of_models_is_run_and_compared(asked: Asked, recipe: Path) -> None:
    answer = asked("run", recipe, "-t", "3.13.0", "-t", "3.11.0", code=1)
    assert len(answer["results"]) == 10
    for entry in answer["results"]:
        name = entry["case"].removeprefix("zoo[file=").removesuffix("]")
        failure = entry["failure"] or {"stage": None, "class": None}
        assert (entry["status"], failure["stage"], failure["class"]) == {
            "add": ("passed", None, None),
            "broken": ("xfail", "import", "import-error"),
            "sub": ("passed", None, None),
            "unknown": ("failed", "import", "import-error"),
            "wrong": ("failed", "compare", "wrong-result"),
        }[name]
        assert ("run_seconds" in entry["metrics"]) == (name in ("add", "wrong"))
    update = asked("expect", "update", recipe, "-t", "3.11.0")
    assert {change["case"] for change in update["files"][0]["changes"]} == {
        "zoo[file=unknown]",
        "zoo[file=wrong]",
    }
    again = asked("run", recipe, "-t", "3.11.0", code=0)
    # what cannot be imported is known, but no result
    assert all(entry["cached"] is bool(entry["metrics"]) for entry in again["results"])
