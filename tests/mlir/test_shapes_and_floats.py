"""Static shapes and wider floats: the rewrite of a valid program is valid."""

from __future__ import annotations

import pytest

from tests.mlir.conftest import Readers
from triage.mlir import parse_module, print_module
from triage.mlir.rewrite import float_types, widen_floats
from triage.remedy.rewrites import rewritten

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
    result = rewritten(reader, reader.text_after_passes(text, GENERIC) or "", "static")
    assert result
    made, what = result
    assert what == "unknown dimensions of the arguments set to 64"
    assert (
        "(%arg0: tensor<64x8xf32>, %arg1: tensor<8x64xf16>) -> (tensor<64x8xf32>, tensor<8x64xf16>)"
        in made
    )
    assert "?" not in made.replace("tensor<?xf32>", "")


@pytest.mark.parametrize(
    ("given_", "wide"),
    [
        ("0xFC00 : f16", "0xFF800000 : f32"),
        ("1.500000e+00 : bf16", "1.500000e+00 : f32"),
        ("0x7FF0000000000000 : f64", "0x7F800000 : f32"),
        (
            "dense<[0x7E00, 1.0]> : tensor<2xf16>",
            "dense<[0x7FC00000, 1.0]> : tensor<2xf32>",
        ),
        (
            'dense<"0x003C00C0"> : tensor<2xf16>',
            'dense<"0x0000803F000000C0"> : tensor<2xf32>',
        ),
        (
            'dense<"0x803F00C0"> : tensor<2xbf16>',
            'dense<"0x0000803F000000C0"> : tensor<2xf32>',
        ),
        ("dense<[0xFF, 1]> : tensor<2xi16>", "dense<[0xFF, 1]> : tensor<2xi16>"),
    ],
)
def test_constants_keep_their_value(given_: str, wide: str) -> None:
    kind, to = given_.rpartition(" : ")[2], wide.rpartition(" : ")[2]
    text = f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = (f16, f64, bf16) -> {kind}, sym_name = "xf16"}}> ({{
  ^bb0(%arg0: f16, %arg1: f64, %arg2: bf16):
    %0 = "arith.constant"() <{{value = {given_}}}> : () -> {kind}
    %1 = "arith.extf"(%arg0) : (f16) -> f64
    %2 = "arith.truncf"(%1) : (f64) -> bf16
    "func.return"(%0, %2) {{note = "f16"}} : ({kind}, bf16) -> ()
  }}) : () -> ()
}}) : () -> ()
"""
    module = parse_module(text)
    types = float_types(module)
    assert set(types) == {"f16", "bf16", "f64"}
    assert widen_floats(module, types)
    [function] = module.functions()
    constant, end = function.regions[0].blocks[0].operations
    assert (constant.properties["value"], constant.results[0].type) == (wide, to)
    assert (function.symbol, end.attributes["note"]) == ("xf16", '"f16"')
    assert end.operands[1] is function.regions[0].blocks[0].arguments[0]
    assert not float_types(parse_module(print_module(module)))
