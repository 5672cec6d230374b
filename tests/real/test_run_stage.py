"""Compiled programs are run and compared with what they must compute, on real compilers
and runtimes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Asked

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
    np.array([1, 2, 3, 4], dtype="f4").tofile(tmp_path / "values.bin")
    np.save(tmp_path / "factor.npy", np.array([2, 2, 2, 2], dtype="f4"))
    np.save(tmp_path / "right.npy", np.array([2, 4, 6, 8], dtype="f4"))
    np.save(tmp_path / "wrong.npy", np.array([2, 4, 7, 8], dtype="f4"))
    (tmp_path / "scale.mlir").write_text(PROGRAM)
    path = tmp_path / "scale.yaml"
    path.write_text(
        "name: scale\ninput: scale.mlir\ntarget: {backend: llvm-cpu}\nmatrix: {result: [right, wrong]}\n"
        'run: {inputs: ["4xf32=@values.bin", "@factor.npy"], expected: ["@${result}.npy"]}\n'
    )
    return path


@pytest.fixture
def results(asked: Asked, recipe: Path) -> Callable[[int], Any]:
    """Runs the recipe, which ends with a code, and returns the result of each case."""

    def run(code: int) -> dict[str, Any]:
        rows = asked("run", recipe, "-t", "3.13.0", code=code)["results"]
        return {row["case"].removeprefix("scale"): row for row in rows}

    return run


def test_a_wrong_result_is_a_failure_with_numbers(
    results: Callable[[int], Any],
) -> None:
    first, again = results(1), results(1)
    assert first["[result=right]"]["status"] == "passed"
    wrong = first["[result=wrong]"]["failure"]
    assert (wrong["class"], wrong["stage"]) == ("wrong-result", "compare")
    assert wrong["signature"] == "wrong-result:0 arith.mulf"
    numbers = {"output": 0, "element": 2, "actual": 6, "expected": 7}
    numbers |= {"elements": 4, "mismatches": 1, "nan": 0, "inf": 0}
    assert numbers.items() <= wrong["details"].items()
    assert all(row["cached"] for row in again.values())
    assert again["[result=wrong]"]["failure"] == wrong


def test_a_nan_is_wrong_though_the_tool_of_the_release_overlooks_it(
    asked: Asked, recipe: Path
) -> None:
    """`iree-run-module` of 3.11.0 accepts NaN for any number."""
    (recipe.parent / "scale.mlir").write_text(PROGRAM.replace("mulf", "divf"))
    np.zeros(4, dtype="f4").tofile(recipe.parent / "values.bin")
    np.save(recipe.parent / "factor.npy", np.array([0, 1, 0, 1], dtype="f4"))
    np.save(recipe.parent / "right.npy", np.zeros(4, dtype="f4"))
    words = ["run", recipe, "--case", "result=right", "-t", "3.11.0"]
    for cached in (False, True):
        [answer] = asked(*words, code=1)["results"]
        failure = answer["failure"]
        assert (failure["class"], failure["stage"]) == ("wrong-result", "compare")
        assert failure["signature"] == "wrong-result:0 nan arith.divf"
        numbers = {"output": 0, "element": 0, "mismatches": 2, "nan": 2}
        assert numbers.items() <= failure["details"].items()
        assert answer["cached"] is cached


def test_changed_values_are_run_again_and_tolerances_count(
    results: Callable[[int], Any], recipe: Path
) -> None:
    text = recipe.read_text()
    for tolerance, code in ((0.5, 1), (1.5, 0)):
        tolerant = f"run: {{tolerance: {{f32: {tolerance}}}, "
        recipe.write_text(text.replace("run: {", tolerant))
        results(code)
    np.save(recipe.parent / "wrong.npy", np.zeros(4, dtype="f4"))
    results(1)


def test_another_release_is_the_reference(
    results: Callable[[int], Any], recipe: Path
) -> None:
    text = recipe.read_text().replace(
        'expected: ["@${result}.npy"]', "reference: {toolchain: 3.11.0}"
    )
    recipe.write_text(text.replace("matrix: {result: [right, wrong]}\n", ""))
    assert results(0)[""]["status"] == "passed"


def test_a_program_that_stops_with_an_error_fails_to_run(
    results: Callable[[int], Any], recipe: Path
) -> None:
    recipe.write_text(recipe.read_text().replace('"4xf32=@values.bin"', '"2xf32=1"'))
    failure = results(1)["[result=right]"]["failure"]
    assert (failure["class"], failure["stage"]) == ("run-failure", "run")
    assert failure["details"]["status"] == "INVALID_ARGUMENT"
