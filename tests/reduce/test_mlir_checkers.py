"""Which toolchains check smaller programs, and which dimensions shrink together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reduce.made import CASE, OVERFLOW, FakeTest, needs
from tests.reduce.test_run_values import PROGRAM
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.reduce.frontends.mlir import mlir_form, shrink_dimensions
from triage.reduce.frontends.mlir_program import MlirProgram
from triage.reduce.problem import ReducedCase, ReductionProblem


class FakeReader(Reader):
    """Refuses programs with a word."""

    def __init__(self, refused: str = "nothing") -> None:
        self.refused = refused

    def generic_form(self, path: Path, *, elide: bool = False) -> str | None:
        return path.read_text()

    def generic_if_valid(self, text: str) -> str | None:
        return None if self.refused in text else text


@pytest.mark.parametrize(("refused", "readers"), [("nothing", 2), ("arith.mulf", 1)])
def test_a_release_that_refuses_the_original_checks_nothing(
    tmp_path: Path, refused: str, readers: int
) -> None:
    (tmp_path / "input.mlir").write_text(PROGRAM)
    newest = FakeReader(refused)
    form = mlir_form([FakeReader(), newest], tmp_path / "input.mlir", OVERFLOW)
    [program] = form.open()
    assert isinstance(program, MlirProgram)
    assert len(program.readers) == readers
    newest.refused = "arith.addf"
    assert (program.canonical is None) == (readers == 2)


SLICE = """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<64x96xf32>) -> tensor<32xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<64x96xf32>):
    %0 = "tensor.extract_slice"(%a) <{static_offsets = array<i64: 32, 0>, static_sizes = array<i64: 32, 1>, x = array<i64: 0, 3, 64>}> : (tensor<64x96xf32>) -> tensor<32xf32>
    "func.return"(%0) : (tensor<32xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_offsets_and_sizes_of_slices_shrink_with_the_types() -> None:
    program = MlirProgram(parse_module(SLICE), [FakeReader("array<i64: 1,")])
    problem = ReductionProblem(ReducedCase(program, CASE), needs(b""))
    shrink_dimensions(problem)
    text = problem.current.program.content.decode()
    assert "static_offsets = array<i64: 2, 0>" in text
    assert "static_sizes = array<i64: 2, 1>" in text
    assert "x = array<i64: 0, 3, 4>" in text
    assert "(tensor<4x6xf32>) -> tensor<2xf32>" in text
    assert "-> (tensor<2xf32>)" in text


def test_sizes_that_are_too_small_are_halved_half_as_often() -> None:
    program = MlirProgram(parse_module(SLICE), [FakeReader("array<i64: 1,")])
    test = FakeTest(lambda candidate: b"<4x" not in candidate.program.content)
    problem = ReductionProblem(ReducedCase(program, CASE), test)
    shrink_dimensions(problem)
    assert b"(tensor<16x24xf32>) -> tensor<8xf32>" in problem.current.program.content
