"""Values as recipes write them, and the numbers on how two results differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.values import ELEMENTS, WAYS, Element, value
from triage.compilers.registry import load_cases
from triage.execution.compare import differences
from triage.model.case import RunSpec
from triage.model.errors import BadFiles
from triage.recipes.run_keys import read_flagfile
from triage.recipes.run_values import (
    read_value,
    value_type,
    with_located_file,
)
from triage.reduce.interestingness import ArgumentValues


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_a_value_comes_back_in_its_own_type(tmp_path: Path, element: Element) -> None:
    """By whatever way it is given, kept by a reduction, or written to a recipe."""
    values = ArgumentValues(tmp_path)
    random = np.random.default_rng(0).bytes(100 * element.array.itemsize)
    many = np.frombuffer(random, element.dtype).copy()
    if element.name == "i1":
        many = many.view("u1") % 2 == 1
    four = element.array
    arrays = [four, four.reshape(2, 1, 2), four[:0], four[:1].reshape(()), many]
    for number, array in enumerate(arrays):
        texts = [value(element, array, way, tmp_path, f"{number}") for way in WAYS[2:]]
        texts.append(values.value_of(array))
        if array.size == 4:
            texts.append(value(element, array, "inline", tmp_path, f"{number}"))
        for text in texts:
            read = read_value(with_located_file(text, tmp_path))
            assert read is not None, text
            assert read.dtype == element.dtype
            assert read.shape == array.shape
            assert read.tobytes() == array.tobytes()


def test_a_type_of_mlir_has_values() -> None:
    for element in ELEMENTS.values():
        for text in (
            f"tensor<2x?x{element.mlir or element.name}>",
            f"!torch.vtensor<[2,?],{element.mlir or element.name}>",
        ):
            wanted = value_type(text)
            assert wanted is not None
            assert (wanted.shape, wanted.dtype) == ((2, None), element.dtype)
    assert value_type("tensor<4xi4>") is None
    assert value_type("tensor<4xf4E2M1FN>") is None
    assert value_type("!hal.buffer_view") is None
    scalar = value_type("index")
    assert scalar is not None
    assert (scalar.dtype, scalar.scalar) == (np.dtype("int64"), True)


@pytest.mark.parametrize(
    "text",
    [
        "2xf32=@{folder}/a.bin",
        "@{folder}/a.bin",
        "2xf32=1 two",
        "1000000x1000000xf32=1",
        f"{'9' * 4000}xf32=1",
    ],
)
def test_what_does_not_fit_its_type_or_the_memory_is_not_read(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "a.bin").write_bytes(b"123")
    assert read_value(text.format(folder=tmp_path)) is None


WANT = "6xf32=1 2 3 nan inf 0"
LARGE, LEAST, GREATEST = 2**53, -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("actual", "expected", "tolerances", "mismatches"),
    [
        ("6xf32=1.00005 2.5 nan nan inf inf", WANT, {"f32": 0.6}, 2),
        ("2xf32=1 inf", "2xf32=inf inf", {}, 1),
        ("5", "5", {}, 0),
        ("f32=5", "5", {}, 0),
        # integers are exact
        *(
            (f"2x{element}={LARGE} 7", f"2x{element}={LARGE + 1} 7", {}, 1)
            for element in ("i64", "ui64", "si64")
        ),
        (f"1xi64={LEAST}", f"1xi64={GREATEST}", {}, 1),
        # a program may forget the sign of its integers
        ("2xi8=-1 127", "2xui8=255 127", {}, 0),
        # another shape or type is wrong, whatever the numbers
        ("3xf32=1", WANT, {}, None),
        ("2xf32=1", "2xf64=1", {}, None),
        ("2xi32=1", "2xf32=1", {}, None),
        ("2xi1=1", "2xi8=1", {}, None),
    ],
)
def test_what_differs(
    actual: str, expected: str, tolerances: dict[str, float], mismatches: int | None
) -> None:
    spec = RunSpec(tolerances=tuple(tolerances.items()))
    assert differences(actual, expected, spec).get("mismatches") == mismatches


def test_flags_that_set_a_tolerance_are_tolerances(tmp_path: Path) -> None:
    """The runtime's program, which knows them, does not compare."""
    file = tmp_path / "run_module_io_flags.txt"
    file.write_text("--expected_f32_threshold=0.5f\n--input=f32=1\n--a=b\n")
    run = read_flagfile(file)
    assert (run.tolerances, run.flags) == ((("f32", 0.5),), ("--a=b",))
    (tmp_path / "p.mlir").write_text("")
    recipe = tmp_path / "r.yaml"
    start = "name: r\ninput: p.mlir\ntarget: {backend: llvm-cpu}\n"
    more = f"flagfile: {file.name}, tolerance: {{f64: 1}}, inputs: [f32=2]"
    recipe.write_text(f"{start}run: {{{more}}}\n")
    [case] = load_cases([recipe])
    assert case.run
    assert case.run.inputs == ("f32=1", "f32=2")
    assert case.run.tolerances == (("f32", 0.5), ("f64", 1))
    recipe.write_text(f"{start}run: {{flags: [--expected_f16_threshold=1]}}\n")
    with pytest.raises(BadFiles, match="tolerance"):
        load_cases([recipe])
