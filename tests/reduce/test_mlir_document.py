"""What an MLIR document says about its text, and how it becomes readable."""

from __future__ import annotations

from triage.mlir import parse_module
from triage.reduce.frontends.mlir.document import MlirDocument

TEXT = """#map = affine_map<(d0, d1) -> (d0, d1)>
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x8xf32>) -> (), sym_name = "f"}> ({
  ^bb0(%arg0: tensor<4x8xf32>):
    %0 = "arith.constant"() <{value = 1 : index}> : () -> index
    %1:2 = "linalg.generic"(%arg0) <{indexing_maps = [#map], iterator_types = ["parallel", "reduction"]}> ({
    ^bb0(%in: f32):
      %2 = "tensor.extract"(%arg0, %0, %0) : (tensor<4x8xf32>, index, index) -> f32
      "linalg.yield"(%2) : (f32) -> ()
    }) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    "torch.operator"(%0) <{name = "onnx.Gather"}> : (index) -> ()
    "linalg.copy"(%1#1) : (tensor<4xf32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""
KINDS = {
    1: None,
    2: "builtin.module gather",
    3: "func.func gather",
    5: "arith.constant",
    6: "linalg.generic reduction gather",
    8: "tensor.extract gather",
    11: "torch.operator onnx.Gather",
    12: "linalg.copy gather",
    13: "func.return",
}


def test_a_line_names_the_kind_of_its_operation() -> None:
    document = MlirDocument(parse_module(TEXT))
    assert len(document.text.splitlines()) == len(TEXT.splitlines())
    assert {line: document.operation_at(line) for line in KINDS} == KINDS
