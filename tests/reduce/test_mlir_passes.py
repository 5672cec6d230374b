"""Passes over MLIR modules return valid modules that are not larger, whatever the
failure is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mlir.conftest import Readers, readers  # noqa: F401 - a fixture
from tests.mlir.programs import programs
from tests.reduce.made import OVERFLOW, LuckyTest
from tests.reduce.test_search import CASE
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.reduce.frontends.mlir import mlir_form
from triage.reduce.frontends.mlir_program import MlirProgram
from triage.reduce.problem import ReductionProblem
from triage.reduce.program import ReducedCase

pytestmark = pytest.mark.real
OLD = "3.3.0"


def document(reader: Reader, text: str) -> MlirProgram:
    generic = reader.generic_if_valid(text)
    assert generic is not None
    return MlirProgram(parse_module(generic), [reader])


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=programs(),
    luck=st.integers(0, 255),
    line=st.integers(0, 20),
)
def test_every_pass_returns_a_valid_module_that_is_not_larger(
    readers: Readers,  # noqa: F811
    text: str,
    luck: int,
    line: int,
) -> None:
    reader = readers(OLD)
    failure = replace(OVERFLOW, location=f"input.mlir:{line}:1")
    form = mlir_form([reader], Path("unread"), failure)
    start = ReducedCase(document(reader, text), CASE)
    problem = ReductionProblem(start, LuckyTest(luck, share=110))
    for step in (*form.first_passes, *form.passes, *form.final_passes):
        before = problem.current.program.size
        step(problem)
        assert problem.current.program.canonical is not None, step
        assert problem.current.program.size <= before, step
