"""The values that smaller programs are run with, and which wrong results count as the
same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.reduce.made import CASE
from triage.execution.compare import same_wrong_result
from triage.mlir import parse_module
from triage.model.case import RunSpec
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.reduce.interestingness import ArgumentValues, run_of
from triage.reduce.mlir_program import (
    MlirProgram,
    cut,
    cuttable,
    name_arguments,
)

PROGRAM = """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>):
    %0 = "arith.addf"(%a, %b) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %1 = "arith.mulf"(%0, %b) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %2 = "arith.subf"(%1, %0) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    "func.return"(%2) : (tensor<4x2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_arguments_keep_their_values_and_others_get_a_pattern(tmp_path: Path) -> None:
    values = ArgumentValues(tmp_path)
    run = RunSpec(inputs=("4x2xf32=1 2 3 4 5 6 7 8", "4x2xf32=9"))
    program = MlirProgram(replace(CASE, run=run), parse_module(PROGRAM), ())
    name_arguments(program.module)
    start = values.remember_values(program)
    assert isinstance(start, MlirProgram)
    [function] = program.module.functions()
    parts, made = cuttable(function), "4x2xf32=-1 0 1 2 -1 0 1 2"
    for smaller, inputs in (
        (start, run.inputs),
        # reads the second and the first result
        (cut(start, function, parts[2:]), (made, made)),
        # reads the first result and the second argument
        (cut(start, function, parts[1:2]), ("4x2xf32=9", made)),
    ):
        ready = smaller and values.case_with_values(smaller)
        assert ready
        assert run_of(ready).inputs == inputs


def wrong(largest: str, nan: int = 0, output: int = 0) -> Failure:
    """A wrong result, whose largest relative error and number of NaNs these are."""
    name = "wrong-result"
    details = {"nan": nan, "inf": 0, "max_rel_error": largest, "output": output}
    signature = f"{name}:{output}"
    return Failure(name, name, signature, "", details=details, stage=Stage.COMPARE)  # type: ignore[arg-type]


def test_wrong_results_of_another_sort_are_other_failures() -> None:
    same = same_wrong_result(wrong("1.5"))
    assert same(wrong("0.02"))
    assert not same(wrong("0.0002"))
    assert not same(wrong("0", nan=3))
    assert not same(replace(wrong("0.5"), failure_class="run-failure"))
    assert same_wrong_result(wrong("0", nan=1))(wrong("0", nan=7, output=3))
