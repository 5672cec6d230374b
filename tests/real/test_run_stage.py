"""Compiled programs are run and compared with what they must compute, on real compilers
and runtimes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Triage
from tests.real.answers import json_answer

pytestmark = pytest.mark.real

PROGRAM = """
func.func @scale(%values: tensor<4xf32>, %factor: tensor<4xf32>) -> tensor<4xf32> {
  %product = arith.mulf %values, %factor : tensor<4xf32>
  return %product : tensor<4xf32>
}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A product of two tensors; its third element is expected to be another one in the
    case `wrong`.
    """
    values, factor = (
        np.array([1, 2, 3, 4], dtype="f4"),
        np.array([2, 2, 2, 2], dtype="f4"),
    )
    values.tofile(tmp_path / "values.bin")
    np.save(tmp_path / "factor.npy", factor)
    np.save(tmp_path / "right.npy", values * factor)
    np.save(
        tmp_path / "wrong.npy", values * factor + np.array([0, 0, 1, 0], dtype="f4")
    )
    (tmp_path / "scale.mlir").write_text(PROGRAM)
    path = tmp_path / "scale.yaml"
    path.write_text(
        "name: scale\ninput: scale.mlir\ntarget: {backend: llvm-cpu}\nmatrix: {result: [right, wrong]}\n"
        'run: {inputs: ["4xf32=@values.bin", "@factor.npy"], expected: ["@${result}.npy"]}\n'
    )
    return path


def _answers(
    triage: Triage, recipe: Path, *words: object, code: int
) -> dict[str, dict[str, object]]:
    return {
        entry["case"]: entry
        for entry in json_answer(
            triage, "run", recipe, "-t", "3.13.0", *words, code=code
        )["results"]
    }


def test_a_wrong_result_is_a_failure_with_numbers(
    shared_home: Path, triage: Triage, recipe: Path
) -> None:
    answers = _answers(triage, recipe, code=1)
    assert answers["scale[result=right]"]["status"] == "passed"
    wrong = answers["scale[result=wrong]"]["failure"]
    assert isinstance(wrong, dict)
    assert (wrong["class"], wrong["stage"], wrong["signature"]) == (
        "wrong-result",
        "compare",
        "wrong-result:0 arith.mulf",
    )
    numbers = {
        "output": 0,
        "element": 2,
        "actual": 6,
        "expected": 7,
        "elements": 4,
        "mismatches": 1,
        "nan": 0,
        "inf": 0,
    }
    assert numbers.items() <= wrong["details"].items()
    again = _answers(triage, recipe, code=1)
    assert all(entry["cached"] for entry in again.values())
    assert again["scale[result=wrong]"]["failure"] == wrong


def test_a_nan_is_wrong_though_the_tool_of_the_release_overlooks_it(
    shared_home: Path, triage: Triage, recipe: Path
) -> None:
    """`iree-run-module` of 3.11.0 accepts NaN for any number."""
    (recipe.parent / "scale.mlir").write_text(PROGRAM.replace("mulf", "divf"))
    np.zeros(4, dtype="f4").tofile(recipe.parent / "values.bin")
    np.save(recipe.parent / "factor.npy", np.array([0, 1, 0, 1], dtype="f4"))
    np.save(recipe.parent / "right.npy", np.zeros(4, dtype="f4"))
    words = ["run", recipe, "--case", "result=right", "-t", "3.11.0"]
    for cached in (False, True):
        [answer] = json_answer(triage, *words, code=1)["results"]
        failure = answer["failure"]
        assert (failure["class"], failure["stage"]) == ("wrong-result", "compare")
        assert failure["signature"] == "wrong-result:0 nan arith.divf"
        assert {
            "output": 0,
            "element": 0,
            "mismatches": 2,
            "nan": 2,
        }.items() <= failure["details"].items()
        assert answer["cached"] is cached


def test_changed_values_are_run_again_and_tolerances_count(
    shared_home: Path, triage: Triage, recipe: Path
) -> None:
    recipe.write_text(
        recipe.read_text().replace("run: {", "run: {tolerance: {f32: 0.5}, ")
    )
    assert _answers(triage, recipe, code=1)["scale[result=wrong]"]["status"] == "failed"
    recipe.write_text(recipe.read_text().replace("0.5", "1.5"))
    assert _answers(triage, recipe, code=0)["scale[result=wrong]"]["status"] == "passed"
    np.save(recipe.parent / "wrong.npy", np.zeros(4, dtype="f4"))
    assert _answers(triage, recipe, code=1)["scale[result=wrong]"]["status"] == "failed"


def test_another_release_is_the_reference(
    shared_home: Path, triage: Triage, recipe: Path
) -> None:
    text = recipe.read_text().replace(
        'expected: ["@${result}.npy"]', "reference: {toolchain: 3.11.0}"
    )
    recipe.write_text(text.replace("matrix: {result: [right, wrong]}\n", ""))
    assert _answers(triage, recipe, code=0)["scale"]["status"] == "passed"


def test_a_program_that_stops_with_an_error_fails_to_run(
    shared_home: Path, triage: Triage, recipe: Path
) -> None:
    recipe.write_text(recipe.read_text().replace('"4xf32=@values.bin"', '"2xf32=1"'))
    failure = _answers(triage, recipe, code=1)["scale[result=right]"]["failure"]
    assert isinstance(failure, dict)
    assert (failure["class"], failure["stage"], failure["details"]["status"]) == (
        "run-failure",
        "run",
        "INVALID_ARGUMENT",
    )
