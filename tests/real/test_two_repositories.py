"""A repository of models beside released compilers: which of the two moved."""

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
MOVE = 7


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
    """Twelve commits; from the eighth on the result is to live on a device that nobody declares."""
    history = History.begin(tmp_path / "models")
    shas = [
        history.commit(f"change {number}", {"double.yaml": RECIPE, "double.mlir": program(0 if number < MOVE else 3, number)})
        for number in range(12)
    ]
    return history, shas


def bisect(triage: Triage, models: History, *more: str, code: int) -> dict[str, Any]:
    asked = ("bisect", models.path / "double.yaml", "--model-repo", models.path, "--format", "json")
    done = triage(*asked, "--model-good", "main~11", "--model-bad", "main", *more)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def is_move(found: dict[str, Any], shas: list[str]) -> bool:
    assert found["model"]["status"] == "culprit"
    assert found["model"]["confirmed"]
    assert found["model"]["before"]["commit"] == shas[MOVE - 1]
    return [one["commit"] for one in found["model"]["suspects"]] == [shas[MOVE]]


def test_a_compiler_that_stays_leaves_the_model(models: tuple[History, list[str]], shared_home: Path, triage: Triage) -> None:
    history, shas = models
    found = bisect(triage, history, "--good", "3.9.0", "--bad", "3.9.0", code=0)
    assert found["moved"] == "model"
    assert found["failure"]["class"] == "undeclared-device"
    assert is_move(found, shas)
    assert found["model"]["probes"] <= 2 + 4 + 1 + 4


def test_the_model_moved_although_the_compiler_did_as_well(
    models: tuple[History, list[str]], shared_home: Path, triage: Triage
) -> None:
    history, shas = models
    found = bisect(triage, history, "--good", "3.8.0", "--bad", "3.9.0", code=0)
    assert found["moved"] == "model"
    assert found["compiler"] is None
    assert is_move(found, shas)


def test_an_old_mistake_of_the_model_shows_with_a_new_compiler(
    models: tuple[History, list[str]], shared_home: Path, triage: Triage
) -> None:
    history, shas = models
    found = bisect(triage, history, "--good", "3.2.0", "--bad", "3.4.0", code=0)
    assert found["moved"] == "both"
    assert (found["compiler"]["before"]["name"], found["compiler"]["after"]["name"]) == ("3.3.0", "3.4.0")
    assert found["compiler"]["confirmed"]
    assert found["compiler"]["after"]["commit"].startswith("aacf93a3f9")
    assert is_move(found, shas)
