"""Passes over MLIR modules return valid modules that are not larger, whatever the
failure is.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mlir.conftest import Readers, readers  # noqa: F401 - a fixture
from tests.mlir.programs import programs
from tests.reduce.made import LuckyTest
from tests.reduce.test_search import CASE
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.reduce.frontends.mlir import mlir_form
from triage.reduce.frontends.mlir_program import Checker, MlirProgram
from triage.reduce.problem import ReductionProblem
from triage.reduce.program import ReducedCase

pytestmark = pytest.mark.real
OLD = "3.3.0"


def document(reader: Reader, text: str) -> MlirProgram:
    generic = reader.generic_if_valid(text)
    assert generic is not None
    return MlirProgram(parse_module(generic), Checker(reader))


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=programs(),
    luck=st.integers(0, 255),
    line=st.one_of(st.none(), st.integers(1, 20)),
)
def test_every_pass_returns_a_valid_module_that_is_not_larger(
    readers: Readers,  # noqa: F811
    text: str,
    luck: int,
    line: int | None,
) -> None:
    reader = readers(OLD)
    form = mlir_form(Checker(reader))
    start = ReducedCase(document(reader, text), CASE)
    problem = ReductionProblem(start, LuckyTest(luck, share=110))
    for step in (form.approach(line), *form.passes, *form.final_passes):
        before = problem.current.program.size
        step(problem)
        assert problem.current.program.canonical is not None, step
        assert problem.current.program.size <= before, step
