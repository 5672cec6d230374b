"""Values as recipes write them, and the numbers on how two results differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.recipes.conftest import BASE, Loaded
from tests.values import ELEMENTS, Element, value
from triage.execution.compare import compare_values
from triage.model.case import RunSpec
from triage.model.errors import BadFiles
from triage.recipes.run_values import (
    read_value,
    value_type,
    with_located_file,
)
from triage.reduce.interestingness import ArgumentValues

each_element = pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)


@each_element
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
        ways = element.ways if array.size == 4 else ["raw"]
        texts = [value(element, array, way, tmp_path, f"{number}") for way in ways]
        for text in (*texts, values.value_of(array)):
            read = read_value(with_located_file(text, tmp_path))
            assert read is not None, text
            assert (read.dtype, read.shape) == (element.dtype, array.shape)
            assert read.tobytes() == array.tobytes()


@each_element
@pytest.mark.parametrize("form", ["tensor<2x?x{}>", "!torch.vtensor<[2,?],{}>"])
def test_a_type_of_mlir_has_values(element: Element, form: str) -> None:
    type_ = value_type(form.format(element.mlir))
    assert type_ is not None
    assert (type_.shape, type_.dtype) == ((2, None), element.dtype)


def test_other_types_of_mlir() -> None:
    for text in ("tensor<4xi4>", "tensor<4xf4E2M1FN>", "!hal.buffer_view"):
        assert value_type(text) is None
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


def test_equal_results_of_a_type_that_is_not_read_are_right(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"12")
    value = f"2xi4=@{tmp_path}/a.bin"
    assert compare_values(value, value, RunSpec())["mismatches"] == 0


# Actual and expected value, and the number of elements that differ; `all`: another type
# or shape is wrong, whatever the numbers. Integers are exact.
DIFFERENCES = """\
6xf32=1.00005 2.5 nan nan inf inf | 6xf32=1 2 3 nan inf 0 | 2
2xf32=1 inf | 2xf32=inf inf | 1
5 | 5 | 0
f32=5 | 5 | 0
2xi64=9007199254740992 7 | 2xi64=9007199254740993 7 | 1
2xui64=9007199254740992 7 | 2xui64=9007199254740993 7 | 1
2xsi64=9007199254740992 7 | 2xsi64=9007199254740993 7 | 1
1xi64=-9223372036854775808 | 1xi64=9223372036854775807 | 1
2xi8=-1 127 | 2xui8=255 127 | 0
3xf32=1 | 6xf32=1 2 3 nan inf 0 | all
2xf32=1 | 2xf64=1 | all
2xi32=1 | 2xf32=1 | all
2xi1=1 | 2xi8=1 | all"""


@pytest.mark.parametrize("line", DIFFERENCES.splitlines())
def test_what_differs(line: str) -> None:
    actual, expected, mismatches = line.split(" | ")
    spec = RunSpec(tolerances=(("f32", 0.6),))
    count = None if mismatches == "all" else int(mismatches)
    assert compare_values(actual, expected, spec).get("mismatches") == count


def test_flags_that_set_a_tolerance_are_tolerances(loaded: Loaded) -> None:
    """The runtime's program, which knows them, does not compare."""
    flags = "--expected_f32_threshold=0.5f\n--input=f32=1\n--a=b\n"
    Path("flags.txt").write_text(flags)
    more = "flagfile: flags.txt, tolerance: {f64: 1}, inputs: [f32=2]"
    [case] = loaded(f"{BASE}run: {{{more}}}\n")
    assert case.run
    assert case.run.inputs == ("f32=1", "f32=2")
    assert case.run.tolerances == (("f32", 0.5), ("f64", 1))
    assert case.run.flags == ("--a=b",)
    with pytest.raises(BadFiles, match="tolerance"):
        loaded(f"{BASE}run: {{flags: [--expected_f16_threshold=1]}}\n")
