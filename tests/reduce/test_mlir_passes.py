"""Passes over MLIR modules return valid modules that are not larger, whatever the
failure is.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.mlir.conftest import Readers, readers  # noqa: F401 - a fixture
from tests.reduce.made import CASE, OVERFLOW, FakeTest, lucky, needs, reduced
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.reduce.mlir import bypass_operations, mlir_form, shrink_dimensions
from triage.reduce.mlir_program import MlirProgram

OLD = "3.3.0"


class FakeReader(Reader):
    """Refuses programs with an array that begins with 1."""

    def __init__(self) -> None:
        pass

    def generic_if_valid(self, text: str) -> str | None:
        return None if "array<i64: 1," in text else text


SLICE = """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<64x96xf32>) -> tensor<32xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<64x96xf32>):
    %0 = "tensor.extract_slice"(%a) <{static_offsets = array<i64: 32, 0>, static_sizes = array<i64: 32, 1>, static_strides = array<i64: 64>, x = array<i64: 0, 3, 64, -9223372036854775808>}> : (tensor<64x96xf32>) -> tensor<32xf32>
    "func.return"(%0) : (tensor<32xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


@pytest.mark.parametrize(
    ("unneeded", "left"),
    [
        (
            b"nothing",
            (
                "static_offsets = array<i64: 2, 0>",
                "static_sizes = array<i64: 2, 1>",
                "static_strides = array<i64: 64>",
                "x = array<i64: 0, 3, 4, -9223372036854775808>",
                "(tensor<4x6xf32>) -> tensor<2xf32>",
                "-> (tensor<2xf32>)",
            ),
        ),
        # what is too small is halved half as often
        (b"<4x", ("(tensor<16x24xf32>) -> tensor<8xf32>",)),
    ],
)
def test_offsets_and_sizes_of_slices_shrink_with_the_types(
    unneeded: bytes, left: tuple[str, ...]
) -> None:
    program = MlirProgram(CASE, parse_module(SLICE), [FakeReader()])
    test = FakeTest(lambda case: unneeded not in case.content)
    text = reduced(program, test, [shrink_dimensions]).content.decode()
    for part in left:
        assert part in text


IDLE = """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<4xf32>):
    %0 = "x.generic"(%a) ({
    ^bb1(%b: f32):
      %1 = "x.loop"(%b) : (f32) -> f32
      %2 = "x.add"(%b) : (f32) -> f32
      "x.yield"(%2) : (f32) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_what_fails_stays_though_nothing_uses_it() -> None:
    program = MlirProgram(CASE, parse_module(IDLE), [FakeReader()])
    text = reduced(program, needs(b"x.loop"), [bypass_operations]).content.decode()
    assert "x.loop" in text
    assert "x.add" not in text


def document(reader: Reader, text: str) -> MlirProgram:
    generic = reader.generic_if_valid(text)
    assert generic is not None
    return MlirProgram(CASE, parse_module(generic), [reader])


@pytest.mark.real
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(luck=st.integers(0, 255), line=st.integers(0, 20))
@pytest.mark.parametrize("name", ["paged_gather", "masked_mean", "prefill_decode"])
def test_every_pass_returns_a_valid_module_that_is_not_larger(
    readers: Readers,  # noqa: F811
    name: str,
    luck: int,
    line: int,
) -> None:
    text = (ROOT / "recipes" / "models" / f"{name}.mlir").read_text()
    reader = readers(OLD)
    failure = replace(OVERFLOW, location=f"input.mlir:{line}:1")
    form = mlir_form([reader], CASE, Path("unread"), failure)
    steps = (*form.first_passes, *form.passes, *form.final_passes)
    reduced(document(reader, text), lucky(luck, 110), steps)


SLICES = """
func.func @rotate(%x: tensor<3x32x64x160xf32>) -> (tensor<3x2048x160xf32>, tensor<3x34x64x160xf32>) {
  %zero = arith.constant 0.0 : f32
  %a = tensor.extract_slice %x[0, 0, 0, 0] [3, 32, 64, 80] [1, 1, 1, 1] : tensor<3x32x64x160xf32> to tensor<3x32x64x80xf32>
  %b = tensor.insert_slice %a into %x[0, 0, 0, 80] [3, 32, 64, 80] [1, 1, 1, 1] : tensor<3x32x64x80xf32> into tensor<3x32x64x160xf32>
  %c = tensor.collapse_shape %b [[0], [1, 2], [3]] : tensor<3x32x64x160xf32> into tensor<3x2048x160xf32>
  %d = tensor.pad %b low[0, 1, 0, 0] high[0, 1, 0, 0] {
  ^bb0(%0: index, %1: index, %2: index, %3: index):
    tensor.yield %zero : f32
  } : tensor<3x32x64x160xf32> to tensor<3x34x64x160xf32>
  return %c, %d : tensor<3x2048x160xf32>, tensor<3x34x64x160xf32>
}
"""


@pytest.mark.real
@pytest.mark.parametrize("release", ["2.9.0", OLD, "3.13.0"])
def test_slices_shrink_with_the_sizes_that_they_repeat(
    readers: Readers,  # noqa: F811
    release: str,
) -> None:
    test = FakeTest(lambda case: not re.search(rb"[<x]1x", case.content))
    program = document(readers(release), SLICES)
    small = reduced(program, test, [shrink_dimensions])
    text = small.readable_content.decode()
    assert max(map(int, re.findall(r"\d+(?=x)", text))) <= 64
