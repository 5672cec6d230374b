"""Static shapes: the rewrite of a valid program is valid."""

from __future__ import annotations

import pytest

from tests.mlir.conftest import Readers
from triage.remedy.static_shapes import with_static_shapes

GENERIC = ("--mlir-print-op-generic",)


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.0.0", "3.13.0"])
def test_static_shapes_reach_the_results(readers: Readers, version: str) -> None:
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
    result = with_static_shapes(reader, reader.text_after_passes(text, GENERIC) or "")
    assert result
    made, what = result
    assert what == "unknown dimensions of the arguments set to 64"
    assert (
        "(%arg0: tensor<64x8xf32>, %arg1: tensor<8x64xf16>) -> (tensor<64x8xf32>, tensor<8x64xf16>)"
        in made
    )
    assert "?" not in made.replace("tensor<?xf32>", "")
