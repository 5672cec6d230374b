"""Where released compilers part, on recipes whose change is known from the compiler's history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real


@pytest.fixture
def attributed(triage: Triage, shared_home: Path) -> Any:
    def call(recipe: str, good: str, bad: str, *words: str) -> dict[str, Any]:
        given = ("attribute", ROOT / f"recipes/{recipe}.yaml", "--good", good, "--bad", bad, "--format", "json", *words)
        done = triage(*given)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    return call


def test_the_collapsed_dimensions_of_the_attention(attributed: Any, tmp_path: Path) -> None:
    out = tmp_path / "page"
    found = attributed(
        "llama-attention-aggressive-fusion", "3.2.0", "3.3.0", "--case", "dtype=f16", "--no-phases", "--out", str(out)
    )
    assert found["status"] == "parted"
    assert found["pass"]["name"] == "CollapseDimensionsPass"
    assert found["pass"]["on"] == "bad"
    assert {"name": "tensor.collapse_shape", "good": "2", "bad": "10"} in found["pass"]["operations"]
    assert found["function"]["bad"].startswith("attention_dispatch_0")
    assert found["failing_pass"] == "GPUCheckResourceUsagePass"
    page = (out / "attribution.html").read_text("utf-8")
    assert "tensor.collapse_shape" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_lowering_strategy_that_chose_otherwise(attributed: Any) -> None:
    found = attributed("dynamic-matmul", "3.1.0", "3.2.0", "--no-phases")
    assert found["pass"]["name"] == "LLVMGPUSelectLoweringStrategyPass"
    assert "lowering_config.workgroup" in {one["name"] for one in found["pass"]["choices"]}
    assert found["phases"] == []


def test_the_same_up_to_the_pass_that_fails(attributed: Any) -> None:
    found = attributed("sharded-updates-short", "3.1.0", "3.2.0")
    assert found["status"] == "failing-pass"
    assert found["suspect_passes"] == ["ScheduleExecutionPass"]
    phases = {one["phase"]: one for one in found["phases"]}
    assert list(phases)[-2:] == ["flow", "stream"]
    assert phases["flow"]["same"] is True
    assert phases["flow"]["good"]["transfers"] == phases["flow"]["bad"]["transfers"] > 0
    assert phases["stream"]["bad"] is None
    assert found["first_phase"] is None


def test_a_crash_that_names_no_pass_itself(attributed: Any) -> None:
    found = attributed("matmul-complex", "3.1.0", "3.2.0", "--no-phases")
    assert found["status"] == "failing-pass"
    assert found["suspect_passes"] == ["LLVMGPUSelectLoweringStrategyPass"]


def test_a_release_does_not_diverge_from_itself(attributed: Any) -> None:
    found = attributed("static-matmul", "3.3.0", "3.3.0", "--no-phases")
    assert found["status"] == "same"
    assert found["suspect_passes"] == []


def test_what_cannot_be_compared_is_inconclusive(triage: Triage, shared_home: Path) -> None:
    recipe = ROOT / "recipes/sharded-updates-short.yaml"
    both = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.3.0")
    assert both.returncode == 3
    assert "same failure" in both.stdout
    swapped = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.1.0")
    assert swapped.returncode == 3
    assert "--good" in swapped.stdout


def test_a_folder_that_is_no_clone_is_bad_input(triage: Triage, shared_home: Path, tmp_path: Path) -> None:
    recipe = ROOT / "recipes/static-matmul.yaml"
    done = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.3.0", "--repo", tmp_path)
    assert done.returncode == 2
    assert "git repository" in done.stderr
