"""The pass where released compilers diverge, on recipes whose change is known from the
compiler's history.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real


@pytest.fixture
def attributed(triage: Triage, shared_home: Path) -> Any:
    def call(recipe: str | Path, good: str, bad: str, *words: str) -> dict[str, Any]:
        path = recipe if isinstance(recipe, Path) else ROOT / f"recipes/{recipe}.yaml"
        command = (
            "attribute",
            path,
            "--good",
            good,
            "--bad",
            bad,
            "--format",
            "json",
            *words,
        )
        done = triage(*command)
        assert done.returncode == 0, done.stderr
        attribution = json.loads(done.stdout)
        assert isinstance(attribution, dict)
        return attribution

    return call


@pytest.mark.core
def test_a_pass_that_collapses_more_dimensions_is_found(
    attributed: Any, triage: Triage
) -> None:
    attribution = attributed(
        "llama-attention-aggressive-fusion", "3.2.0", "3.3.0", "--case", "dtype=f16"
    )
    assert attribution["status"] == "parted"
    assert attribution["pass"]["name"] == "CollapseDimensionsPass"
    assert attribution["pass"]["on"] == "bad"
    assert {"name": "tensor.collapse_shape", "good": "2", "bad": "10"} in attribution[
        "pass"
    ]["operations"]
    assert attribution["function"]["bad"].startswith("attention_dispatch_0")
    assert attribution["failing_pass"] == "GPUCheckResourceUsagePass"
    words = (
        ROOT / "recipes/llama-attention-aggressive-fusion.yaml",
        "--case",
        "dtype=f16",
        "--format",
        "html",
    )
    page = triage("attribute", *words, "--good", "3.2.0", "--bad", "3.3.0").stdout
    assert "tensor.collapse_shape" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_equal_ir_up_to_the_pass_that_fails(attributed: Any) -> None:
    attribution = attributed("sharded-updates-short", "3.1.0", "3.2.0")
    assert attribution["status"] == "failing-pass"
    assert attribution["suspect_passes"] == ["ScheduleExecutionPass"]
    assert attribution["first_phase"] is None


def test_runs_that_cannot_be_compared_are_inconclusive(
    triage: Triage, shared_home: Path
) -> None:
    recipe = ROOT / "recipes/sharded-updates-short.yaml"
    both = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.3.0")
    assert both.returncode == 3
    assert "same failure" in both.stdout
    swapped = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.1.0")
    assert swapped.returncode == 3
    assert "--good" in swapped.stdout
