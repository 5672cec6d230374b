"""What an MLIR document says about its text, and how it becomes readable."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.reduce.test_search import CASE
from triage.mlir import parse_module
from triage.reduce.frontends.mlir.document import MlirDocument
from triage.reduce.frontends.mlir.operations import plain_functions
from triage.reduce.program import Candidate

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


UTIL = """"builtin.module"() ({
  "util.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, inlining_policy = #util.inline.never,
      sym_name = "main$async", tied_operands = [0 : index]}> ({
  ^bb0(%arg0: tensor<4xf32>):
    "util.return"(%arg0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


class WordsTest:
    """Candidates with all of these words are interesting."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def first(self, drafts: Iterable[Candidate]) -> Candidate | None:
        return next((draft for draft in drafts if all(word in draft.document.content.decode() for word in self.words)), None)

    def is_valid(self, draft: Candidate) -> bool:
        return True


@pytest.mark.parametrize(
    ("needed", "function", "name"),
    [((), "func.func", "main"), (("util.func",), "util.func", "main"), (("async",), "func.func", "main$async")],
)
def test_functions_become_plain_where_the_failure_allows_it(needed: tuple[str, ...], function: str, name: str) -> None:
    reduced = plain_functions(Candidate(MlirDocument(parse_module(UTIL)), CASE), WordsTest(*needed)).document
    assert isinstance(reduced, MlirDocument)
    [operation] = reduced.module.functions()
    assert (operation.name, operation.symbol) == (function, name)
    assert ("tied_operands" in reduced.text) is (function == "util.func")
    assert "util.return" not in reduced.text or function == "util.func"
