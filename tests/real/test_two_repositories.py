"""Bisect a repository of models together with released compilers: which of the two introduced the failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.git_history.history import ENV, History

pytestmark = pytest.mark.real

RECIPE = """name: doubled
input: double.mlir
target: {backend: rocm, chip: gfx942, devices: 2}
limits: {timeout: 120s, memory: 4GiB}
"""
CULPRIT = 7


def program(device: int, number: int) -> str:
    return f"""// {number}
func.func @double(%x: tensor<4x8xf32>) -> (tensor<4x8xf32> {{iree.abi.affinity = #hal.device.affinity<@__device_{device}>}}) {{
  %y = arith.addf %x, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}}
"""


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def models(tmp_path: Path) -> tuple[History, list[str]]:
    """Twelve commits; from the eighth on, the result is on a device that no flag declares."""
    history = History.begin(tmp_path / "models")
    shas = [
        history.commit(
            f"change {number}", {"double.yaml": RECIPE, "double.mlir": program(0 if number < CULPRIT else 3, number)}
        )
        for number in range(12)
    ]
    return history, shas


def bisect(triage: Triage, models: History, *more: str, code: int) -> dict[str, Any]:
    command = ("bisect", models.path / "double.yaml", "--model-repo", models.path, "--format", "json")
    done = triage(*command, "--model-good", "main~11", "--model-bad", "main", *more)
    assert done.returncode == code, done.stderr
    bisection: dict[str, Any] = json.loads(done.stdout)
    return bisection


def is_culprit(bisection: dict[str, Any], shas: list[str]) -> bool:
    assert bisection["model"]["status"] == "culprit"
    assert bisection["model"]["confirmed"]
    assert bisection["model"]["before"]["commit"] == shas[CULPRIT - 1]
    return [suspect["commit"] for suspect in bisection["model"]["suspects"]] == [shas[CULPRIT]]


def test_the_model_is_the_cause_when_the_compiler_is_fixed(
    models: tuple[History, list[str]], shared_home: Path, triage: Triage
) -> None:
    history, shas = models
    bisection = bisect(triage, history, "--good", "3.9.0", "--bad", "3.9.0", code=0)
    assert bisection["moved"] == "model"
    assert bisection["failure"]["class"] == "undeclared-device"
    assert is_culprit(bisection, shas)
    ends, halvings, spare, confirmations = 2, 4, 1, 6
    assert bisection["model"]["probes"] <= ends + halvings + spare + confirmations


def test_the_model_is_the_cause_although_the_compiler_changed_too(
    models: tuple[History, list[str]], shared_home: Path, triage: Triage
) -> None:
    history, shas = models
    bisection = bisect(triage, history, "--good", "3.8.0", "--bad", "3.9.0", code=0)
    assert bisection["moved"] == "model"
    assert bisection["compiler"] is None
    assert is_culprit(bisection, shas)


def test_a_mistake_of_the_model_that_only_a_new_compiler_reports(
    models: tuple[History, list[str]], shared_home: Path, triage: Triage
) -> None:
    history, shas = models
    bisection = bisect(triage, history, "--good", "3.2.0", "--bad", "3.4.0", code=0)
    assert bisection["moved"] == "both"
    assert (bisection["compiler"]["before"]["name"], bisection["compiler"]["after"]["name"]) == ("3.3.0", "3.4.0")
    assert bisection["compiler"]["confirmed"]
    assert bisection["compiler"]["after"]["commit"].startswith("aacf93a3f9")
    assert is_culprit(bisection, shas)
