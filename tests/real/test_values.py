"""The matrix of values: each element type comes back as it was given, by whatever way
a value is written, expected, computed by a reference or kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compilers.contract import Contract, Sample
from tests.conftest import Triage
from tests.real.answers import json_answer
from tests.values import ELEMENTS, value, write_matrix

pytestmark = pytest.mark.real
LLVM = "target: {backend: llvm-cpu}\n"
XLA = "compiler: xla\ntarget: {backend: cpu}\n"
DEMOTED = {"f64", "cf128"}  # IREE computes them in fewer bits
FLOATS_OF_8_BITS = {name for name in ELEMENTS if name.startswith("f8")}
WRONG = "element 0, 1 differ"


def _check(triage: Triage, folder: Path, names: list[str], head: str, rev: str) -> None:
    folder.mkdir()
    wrong = write_matrix(folder, names, head, rev.partition(":")[2] or rev)
    answers = json_answer(triage, "run", folder, "-t", rev, code=1)["results"]
    seen = {entry["case"]: _seen(entry) for entry in answers}
    assert seen == {name: WRONG if name in wrong else "passed" for name in seen}


def _seen(entry: dict[str, Any]) -> str:
    failure = entry["failure"] or {}
    if failure.get("class") == "wrong-result":
        details = failure["details"]
        return f"element {details['element']}, {details['mismatches']} differ"
    return str(failure.get("headline") or entry["reason"] or entry["status"])


@pytest.mark.core
def test_iree_keeps_common_types(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    _check(triage, tmp_path / "recipes", ["i1", "i32", "bf16"], LLVM, "3.3.0")


@pytest.mark.parametrize(
    ("rev", "untested"), [("2.9.0", DEMOTED | FLOATS_OF_8_BITS), ("3.13.0", DEMOTED)]
)
def test_iree_keeps_every_type(
    shared_home: Path, triage: Triage, tmp_path: Path, rev: str, untested: set[str]
) -> None:
    names = [name for name in ELEMENTS if name not in untested]
    _check(triage, tmp_path / "recipes", names, LLVM, rev)


def test_xla_keeps_every_type(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    _check(triage, tmp_path / "recipes", list(ELEMENTS), XLA, "xla:0.10.2")


def _script_repeats(family: str, rev: str, name: str, head: str, folder: Path) -> None:
    element, runs = ELEMENTS[name], []
    array, result = element.array, element.result
    off = result.copy()
    off[0] = array[0]
    for last in (result, off):
        expected = [result] * (len(element.ways) - 1) + [last]
        lists = {"inputs": [array] * len(element.ways), "expected": expected}
        texts = {
            key: [value(element, each, "inline", folder, "") for each in arrays]
            for key, arrays in lists.items()
        }
        runs.append(f"run: {json.dumps(texts)}")
    keys = head.partition("\n")[2] if family == "xla" else head
    sample = Sample(family, rev, f"{name}.mlir", element.program, keys, *runs)
    Contract(sample, folder).compiles_and_repeats_its_failure()


@pytest.mark.parametrize("name", [name for name in ELEMENTS if name not in DEMOTED])
def test_the_script_of_iree_repeats_a_wrong_result(
    shared_home: Path, tmp_path: Path, name: str
) -> None:
    _script_repeats("iree", "3.13.0", name, LLVM, tmp_path)


@pytest.mark.parametrize("name", ["i64", "ui64", "f32", "bf16", "f8E4M3FN", "cf64"])
def test_the_script_of_xla_repeats_a_wrong_result(
    shared_home: Path, tmp_path: Path, name: str
) -> None:
    _script_repeats("xla", "0.10.2", name, XLA, tmp_path)


@pytest.fixture
def wrong_compiler(installed: Callable[[str], Path], tmp_path: Path) -> Path:
    """A folder with a compiler whose programs are wrong, and with the runtime."""
    right = installed("3.13.0") / "iree/compiler/_mlir_libs/iree-compile"
    folder = tmp_path / "wrong"
    folder.mkdir()
    source = Path(__file__).parents[1] / "wrong_compiler.c"
    (folder / "right").symlink_to(right.parent)
    real = folder / "right" / right.name
    argv = ["cc", f'-DREAL="{real}"', "-o", folder / "iree-compile", source]
    subprocess.run(argv, check=True)
    (folder / "iree-opt").symlink_to(right.with_name("iree-opt"))
    return folder


@pytest.mark.parametrize(
    "name",
    ["i8", "ui16", "i64", "f16", "bf16", "f8E4M3FN", "f8E5M2FNUZ", "cf64"],
)
def test_a_wrong_result_of_any_type_is_reduced(
    shared_home: Path,
    triage: Triage,
    tmp_path: Path,
    wrong_compiler: Path,
    installed: Callable[[str], Path],
    name: str,
) -> None:
    """`masked-mean` in `test_reduce.py` has booleans; `tests/recipes` has all types."""
    write_matrix(tmp_path, [name], LLVM, "3.13.0")
    recipe = tmp_path / f"{name.lower()}-expected.yaml"
    json_answer(triage, "run", recipe, "-t", "3.13.0")  # installs the runtime
    [runtime] = (shared_home / "toolchains").glob("iree-base-runtime-3.13.0-*")
    (wrong_compiler / "iree-run-module").symlink_to(
        runtime / "iree/_runtime_libs/iree-run-module"
    )
    words = ("-t", f"path:{wrong_compiler}", "--good", "3.13.0", "--out", tmp_path)
    small = json_answer(triage, "reduce", recipe, *words)
    assert (small["status"], small["operations"]["after"]) == ("reduced", 3)
    right = installed("3.13.0") / "iree/compiler/_mlir_libs/iree-compile"
    for compiler, is_right in ((wrong_compiler / "iree-compile", False), (right, True)):
        done = subprocess.run(
            [Path(small["reproducer"]) / "repro.sh"],
            env={
                "PATH": os.defpath,
                "IREE_COMPILE": str(compiler),
                "IREE_RUN_MODULE": str(wrong_compiler / "iree-run-module"),
                "PYTHON": sys.executable,
            },
            capture_output=True,
            check=False,
        )
        assert (done.returncode == 0) is is_right, done.stderr


OF_ONNX = {
    "i1": ("Not", TensorProto.BOOL),
    **{
        f"{sign}i{bits}": (
            "BitwiseNot",
            getattr(TensorProto, f"{sign}int{bits}".upper()),
        )
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "f32": ("Neg", TensorProto.FLOAT),
    "bf16": ("Neg", TensorProto.BFLOAT16),
}


def test_values_of_onnx_keep_every_type(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    """As tensors in protobuf."""
    wrong = set()
    for name, (operation, type_) in OF_ONNX.items():
        element = ELEMENTS[name]
        off = element.result.copy()
        off[0] = element.array[0]
        values = [
            helper.make_tensor_value_info(each, type_, [4]) for each in ("x", "y")
        ]
        node = helper.make_node(operation, ["x"], ["y"])
        graph = helper.make_graph([node], "main", values[:1], values[1:])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8
        )
        onnx.save(model, tmp_path / f"{name}.onnx")
        arrays = {"in": element.array, "out": element.result, "off": off}
        for role, array in arrays.items():
            tensor = numpy_helper.from_array(array)
            onnx.save_tensor(tensor, tmp_path / f"{name}-{role}.pb")
        runs = {
            "expected": f"expected: ['@{name}-out.pb']",
            "wrong": f"expected: ['@{name}-off.pb']",
        }
        wrong.add(f"{name}-wrong")
        for kind in runs:
            (tmp_path / f"{name}-{kind}.yaml").write_text(
                f"name: {name}-{kind}\ninput: {name}.onnx\n{LLVM}"
                f"run: {{inputs: ['@{name}-in.pb'], {runs[kind]}}}\n"
            )
    answers = json_answer(triage, "run", tmp_path, "-t", "3.13.0", code=1)["results"]
    seen = {entry["case"]: _seen(entry) for entry in answers}
    assert seen == {name: WRONG if name in wrong else "passed" for name in seen}
