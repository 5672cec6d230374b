"""A recipe whose input is a pattern has a case for each file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.loading import load_recipes
from triage.model.errors import BadFiles

BASE = "name: n\ntarget: {backend: llvm-cpu}\n"


@pytest.fixture(autouse=True)
def zoo(folder: Path) -> Path:
    for name in (
        "zoo/resnet/model.onnx",
        "zoo/bert/model.onnx",
        "zoo/bert/small.onnx",
        "zoo/.git/model.onnx",
        "zoo/a.mlir",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder / "zoo"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("zoo/**/*.onnx", ["bert/model", "bert/small", "resnet/model"]),
        ("zoo/*/model.onnx", ["bert", "resnet"]),
        ("../zoo/zoo/*.mlir", ["a"]),
    ],
)
def test_a_case_has_the_name_of_its_file(
    folder: Path, pattern: str, names: list[str]
) -> None:
    (folder / "zoo" / "zoo").symlink_to(folder / "zoo")
    (folder / "r").mkdir()
    recipe = folder / ("r/r.yaml" if pattern.startswith("..") else "r.yaml")
    recipe.write_text(BASE + f"input: '{pattern}'\n")
    cases = load_recipes([recipe])
    assert [case.name for case in cases] == [f"n[file={name}]" for name in names]
    assert [case.matrix for case in cases] == [(("file", name),) for name in names]
    assert all(case.input.path.is_file() for case in cases)


def test_test_data_beside_a_model_is_run(folder: Path, zoo: Path) -> None:
    data = zoo / "bert" / "data"
    data.mkdir()
    for name in ("input_0.pb", "input_1.npy", "output_0.pb"):
        (data / name).write_bytes(b"")
    Path("r.yaml").write_text(BASE + "input: zoo/*/model.onnx\nrun: {data: data}\n")
    bert, resnet = load_recipes([Path("r.yaml")])
    assert bert.run is not None
    assert bert.run.inputs == (f"@{data}/input_0.pb", f"@{data}/input_1.npy")
    assert bert.run.expected == (f"@{data}/output_0.pb",)
    assert resnet.run is None
    (data / "input_1.npy").unlink()
    (data / "input_2.pb").touch()
    with pytest.raises(BadFiles, match="one a number"):
        load_recipes([Path("r.yaml")])
