"""Passes over MLIR modules return valid modules that are not larger, whatever the failure is."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mlir.conftest import Readers, readers  # noqa: F401 - a fixture
from tests.mlir.programs import programs
from tests.reduce.test_search import CASE
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.mlir.tree import function_types
from triage.reduce.frontends.mlir.document import MlirDocument, module_of
from triage.reduce.frontends.mlir.frontend import MlirFrontend
from triage.reduce.program import Candidate

pytestmark = pytest.mark.real
OLD, NEW = "3.3.0", "3.13.0"


class LuckyTest:
    """A test for drafts that are valid and have some luck, the same each time for the same program."""

    def __init__(self, reader: Reader, luck: int) -> None:
        self.frontend, self.luck = MlirFrontend(reader), luck
        self.invalid = self.asked = 0

    def first(self, drafts: Iterable[Candidate]) -> Candidate | None:
        for candidate in drafts:
            self.asked += 1
            content = self.frontend.valid(candidate.document)
            if content is None:
                self.invalid += 1
            elif sha256(content + bytes([self.luck])).digest()[0] < 110:
                return candidate
        return None

    def is_valid(self, draft: Candidate) -> bool:
        return self.frontend.valid(draft.document) is not None


def document(reader: Reader, text: str) -> MlirDocument:
    generic = reader.valid(text)
    assert generic is not None
    return MlirDocument(parse_module(generic))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=programs(), luck=st.integers(0, 255), line=st.one_of(st.none(), st.integers(1, 20)))
def test_every_pass_returns_a_valid_module_that_is_not_larger(
    readers: Readers,  # noqa: F811
    text: str,
    luck: int,
    line: int | None,
) -> None:
    reader = readers(OLD)
    test = LuckyTest(reader, luck)
    draft = Candidate(document(reader, text), CASE)
    for step in (test.frontend.approach(line), *test.frontend.passes, *test.frontend.final_passes):
        made = step(draft, test)
        assert test.frontend.valid(made.document) is not None, step
        # Putting a function in the place of its call repeats it; everything else only takes away.
        assert step.__name__ == "inline_calls" or made.document.size <= draft.document.size, step
        draft = made


def test_dimensions_shrink_through_the_whole_program(readers: Readers) -> None:  # noqa: F811
    text = """
      func.func @f(%a: tensor<4x64x128xf32>, %b: tensor<128x32xf32>) -> tensor<256x32xf32> {
        %flat = tensor.collapse_shape %a [[0, 1], [2]] : tensor<4x64x128xf32> into tensor<256x128xf32>
        %e = tensor.empty() : tensor<256x32xf32>
        %c = linalg.matmul ins(%flat, %b : tensor<256x128xf32>, tensor<128x32xf32>)
                           outs(%e : tensor<256x32xf32>) -> tensor<256x32xf32>
        return %c : tensor<256x32xf32>
      }"""
    reader = readers(NEW)
    found = reduced(reader, text, "linalg.matmul")
    assert function_types(module_of(found).functions()[0]) == (["tensor<1x1xf32>"] * 2, ["tensor<1x1xf32>"])


def test_a_body_loses_unneeded_operations_and_unread_inputs(readers: Readers) -> None:  # noqa: F811
    text = """
      #m = affine_map<(d0) -> (d0)>
      func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
        %e = tensor.empty() : tensor<8xf32>
        %c = linalg.generic {indexing_maps = [#m, #m, #m, #m], iterator_types = ["parallel"]}
            ins(%a, %b, %w : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
        ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
          %1 = arith.addf %x, %y : f32
          %2 = math.erf %z : f32
          %3 = arith.mulf %1, %2 : f32
          linalg.yield %3 : f32
        } -> tensor<8xf32>
        return %c : tensor<8xf32>
      }"""
    module = module_of(reduced(readers(NEW), text, "math.erf"))
    names = [operation.name for operation in module.walk()]
    assert "math.erf" in names
    assert not {"arith.addf", "arith.mulf"} & set(names)
    generic = next(operation for operation in module.walk() if operation.name == "linalg.generic")
    assert len(generic.operands) <= 2
    assert len(module.functions()[0].regions[0].blocks[0].arguments) == 1


def test_a_call_is_replaced_by_the_body_of_the_function(readers: Readers) -> None:  # noqa: F811
    text = """
      func.func private @inner(%a: tensor<4xf32>) -> tensor<4xf32> {
        %b = math.tanh %a : tensor<4xf32>
        return %b : tensor<4xf32>
      }
      func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
        %b = call @inner(%a) : (tensor<4xf32>) -> tensor<4xf32>
        %c = arith.addf %b, %a : tensor<4xf32>
        return %c : tensor<4xf32>
      }"""
    module = module_of(reduced(readers(NEW), text, "math.tanh"))
    assert [operation.name for operation in module.walk()] == ["func.func", "math.tanh", "func.return"]


class OperationTest:
    """A test for valid drafts with an operation of a name."""

    def __init__(self, reader: Reader, name: str) -> None:
        self.frontend, self.name = MlirFrontend(reader), name

    def first(self, drafts: Iterable[Candidate]) -> Candidate | None:
        return next((draft for draft in drafts if self.is_valid(draft) and self._has(draft)), None)

    def is_valid(self, draft: Candidate) -> bool:
        return self.frontend.valid(draft.document) is not None

    def _has(self, draft: Candidate) -> bool:
        return any(operation.name == self.name for operation in module_of(draft).walk())


def reduced(reader: Reader, text: str, name: str) -> Candidate:
    """What the passes leave of a program of which operation operation is needed."""
    test = OperationTest(reader, name)
    draft = Candidate(document(reader, text), CASE)
    for _ in range(3):
        for step in (test.frontend.approach(None), *test.frontend.passes, *test.frontend.final_passes):
            draft = step(draft, test)
    return draft
