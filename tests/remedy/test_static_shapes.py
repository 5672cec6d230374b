"""A program is rewritten for the first sizes with which it is valid."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.mlir.conftest import Readers, readers  # noqa: F401 - a fixture
from triage.remedy.candidates import with_static_shapes

PROGRAM = """"builtin.module"() ({
  "func.func"() <{function_type = (TYPE) -> TYPE, sym_name = "f"}> ({
  ^bb0(%arg0: TYPE):
    "func.return"(%arg0) : (TYPE) -> ()
  }) : () -> ()
}) : () -> ()
""".replace("TYPE", "tensor<?x4xf32>")


@pytest.mark.parametrize(("refused", "size"), [("", 64), ("tensor<64x4", 128)])
def test_the_first_valid_sizes_are_taken(refused: str, size: int) -> None:
    class RefusingReader:
        """Stands where a `Reader` stands."""

        def text_after_passes(self, text: str, passes: object) -> str | None:
            return None if refused and refused in text else text

    made: Any = with_static_shapes(RefusingReader(), PROGRAM)  # type: ignore[arg-type]
    assert f"(tensor<{size}x4xf32>) ->" in made[0]
    assert made[1] == f"unknown dimensions of the arguments set to {size}"


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.0.0", "3.13.0"])
def test_the_arguments_and_what_is_computed_from_them_are_static(
    readers: Readers,  # noqa: F811
    version: str,
) -> None:
    reader = readers(version)
    text = """
func.func @f(%a: tensor<?x8xf32>, %b: tensor<8x?xf16>) -> (tensor<?x8xf32>, tensor<8x?xf16>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %w = arith.constant dense<2.0> : tensor<8x8xf32>
  %r = linalg.matmul ins(%a, %w : tensor<?x8xf32>, tensor<8x8xf32>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %r, %b : tensor<?x8xf32>, tensor<8x?xf16>
}
func.func private @called(tensor<?xf32>) -> tensor<?xf32>
"""
    result = with_static_shapes(reader, reader.generic_if_valid(text) or "")
    assert result
    made, what = result
    assert what == "unknown dimensions of the arguments set to 64"
    assert "(%arg0: tensor<64x8xf32>, %arg1: tensor<8x64xf16>)" in made
    assert re.search("linalg.matmul.*-> tensor<64x8xf32>", made)
