"""The operation that computes a result of a program, whichever form a compiler printed."""

from __future__ import annotations

import pytest

from triage.mlir.result_operator import result_operator

PRETTY = """
module {
  func.func private @helper(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = math.exp %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = arith.addf %a, %b : tensor<4xf32>
    %sum = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
    } ins(%0 : tensor<4xf32>) outs(%b : tensor<4xf32>) {
    ^bb0(%value: f32, %total: f32):
      %scaled = arith.mulf %value, %total : f32
      %next = arith.addf %scaled, %total : f32
      linalg.yield %next : f32
    } -> tensor<4xf32>
    %1 = func.call @helper(%sum) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = torch.operator "onnx.Det"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = tensor.expand_shape %sum [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
    return %0, %3, %1, %2 : tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
"""
GENERIC = """
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0:2 = "linalg.generic"(%arg0) <{operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%arg1: f32):
      %2 = "arith.mulf"(%arg1, %arg1) : (f32, f32) -> f32
      "linalg.yield"(%2) : (f32) -> ()
    }) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %1 = "torch.operator"(%0#0) <{name = "onnx.Det"}> : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0#1, %1) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        (
            PRETTY,
            [
                "arith.addf",
                "linalg.generic",
                "@helper",
                "onnx.Det",
                "",
            ],
        ),
        (GENERIC, ["linalg.generic", "onnx.Det"]),
        ("", [""]),
        ("func.func @f(%a: i32) -> i32 {\nreturn %a : i32\n}", [""]),
    ],
)
def test_each_result_has_its_operator(text: str, operators: list[str]) -> None:
    assert [
        result_operator(text.splitlines(), None, number)
        for number in range(len(operators))
    ] == operators


def test_a_named_function_is_read_whatever_its_visibility() -> None:
    assert result_operator(PRETTY.splitlines(), "helper", 0) == "math.exp"
    assert result_operator(PRETTY.splitlines(), "missing", 0) == ""
