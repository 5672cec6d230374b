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
from tests.reduce.made import CASE, OVERFLOW, FakeTest, lucky
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.reduce.frontends.mlir import mlir_form, shrink_dimensions
from triage.reduce.frontends.mlir_program import MlirProgram
from triage.reduce.problem import ReducedCase, ReductionProblem

pytestmark = pytest.mark.real
OLD = "3.3.0"


def document(reader: Reader, text: str) -> MlirProgram:
    generic = reader.generic_if_valid(text)
    assert generic is not None
    return MlirProgram(parse_module(generic), [reader])


MODELS = ROOT / "recipes" / "models"


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
    text = (MODELS / f"{name}.mlir").read_text()
    reader = readers(OLD)
    failure = replace(OVERFLOW, location=f"input.mlir:{line}:1")
    form = mlir_form([reader], Path("unread"), failure)
    start = ReducedCase(document(reader, text), CASE)
    problem = ReductionProblem(start, lucky(luck, 110))
    for step in (*form.first_passes, *form.passes, *form.final_passes):
        before = problem.current.program.size
        step(problem)
        assert problem.current.program.canonical is not None, step
        assert problem.current.program.size <= before, step


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


def fails(candidate: ReducedCase) -> bool:
    """Fails unless a dimension is 1."""
    return not re.search(rb"[<x]1x", candidate.program.content)


@pytest.mark.parametrize("release", ["2.9.0", OLD, "3.13.0"])
def test_slices_shrink_with_the_sizes_that_they_repeat(
    readers: Readers,  # noqa: F811
    release: str,
) -> None:
    start = ReducedCase(document(readers(release), SLICES), CASE)
    problem = ReductionProblem(start, FakeTest(fails))
    shrink_dimensions(problem)
    text = problem.current.program.readable_content.decode()
    assert max(map(int, re.findall(r"\d+(?=x)", text))) <= 64
