"""The pass where released compilers diverge, on recipes whose change is known from the compiler's history."""

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
        command = ("attribute", path, "--good", good, "--bad", bad, "--format", "json", *words)
        done = triage(*command)
        assert done.returncode == 0, done.stderr
        attribution = json.loads(done.stdout)
        assert isinstance(attribution, dict)
        return attribution

    return call


def test_a_pass_that_collapses_more_dimensions_is_found(attributed: Any, tmp_path: Path) -> None:
    out = tmp_path / "page"
    attribution = attributed(
        "llama-attention-aggressive-fusion", "3.2.0", "3.3.0", "--case", "dtype=f16", "--no-phases", "--out", str(out)
    )
    assert attribution["status"] == "parted"
    assert attribution["pass"]["name"] == "CollapseDimensionsPass"
    assert attribution["pass"]["on"] == "bad"
    assert {"name": "tensor.collapse_shape", "good": "2", "bad": "10"} in attribution["pass"]["operations"]
    assert attribution["function"]["bad"].startswith("attention_dispatch_0")
    assert attribution["failing_pass"] == "GPUCheckResourceUsagePass"
    assert attribution["shared_memory_bytes"] == {"good": 25344, "bad": 286720}  # as the failure says
    page = (out / "attribution.html").read_text("utf-8")
    assert "tensor.collapse_shape" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_another_lowering_strategy_is_found(attributed: Any) -> None:
    attribution = attributed("dynamic-matmul", "3.1.0", "3.2.0", "--no-phases")
    assert attribution["pass"]["name"] == "LLVMGPUSelectLoweringStrategyPass"
    assert "lowering_config.workgroup" in {choice["name"] for choice in attribution["pass"]["choices"]}
    assert attribution["phases"] == []


def test_equal_ir_up_to_the_pass_that_fails(attributed: Any) -> None:
    attribution = attributed("sharded-updates-short", "3.1.0", "3.2.0")
    assert attribution["status"] == "failing-pass"
    assert attribution["suspect_passes"] == ["ScheduleExecutionPass"]
    phases = {phase["phase"]: phase for phase in attribution["phases"]}
    assert list(phases)[-2:] == ["flow", "stream"]
    assert phases["flow"]["same"] is True
    assert phases["flow"]["good"]["transfers"] == phases["flow"]["bad"]["transfers"] > 0
    assert phases["stream"]["bad"] is None
    assert attribution["first_phase"] is None


def test_a_crash_without_a_named_pass(attributed: Any) -> None:
    attribution = attributed("matmul-complex", "3.1.0", "3.2.0", "--no-phases")
    assert attribution["status"] == "failing-pass"
    assert attribution["suspect_passes"] == ["LLVMGPUSelectLoweringStrategyPass"]


def test_a_release_does_not_diverge_from_itself(attributed: Any) -> None:
    attribution = attributed("static-matmul", "3.3.0", "3.3.0", "--no-phases")
    assert attribution["status"] == "same"
    assert attribution["suspect_passes"] == []


def test_runs_that_cannot_be_compared_are_inconclusive(triage: Triage, shared_home: Path) -> None:
    recipe = ROOT / "recipes/sharded-updates-short.yaml"
    both = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.3.0")
    assert both.returncode == 3
    assert "same failure" in both.stdout
    swapped = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.1.0")
    assert swapped.returncode == 3
    assert "--good" in swapped.stdout


def test_a_folder_that_is_not_a_clone_is_bad_input(triage: Triage, shared_home: Path, tmp_path: Path) -> None:
    recipe = ROOT / "recipes/static-matmul.yaml"
    done = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.3.0", "--repo", tmp_path)
    assert done.returncode == 2
    assert "git repository" in done.stderr


@pytest.mark.slow
def test_a_wrong_constant_is_found_when_all_operations_agree(attributed: Any) -> None:
    attribution = attributed("masked-mean", "3.13.0", "3.12.0", "--no-phases")
    assert attribution["status"] == "parted"
    assert attribution["pass"]["name"] == "ConvertTorchToLinalg"
    assert {"name": "operation (i1, i1) -> i1", "good": "arith.cmpi arith.maxui", "bad": "arith.cmpi arith.maxsi"} in (
        attribution["pass"]["choices"]
    )


@pytest.mark.slow
def test_the_pass_that_made_a_program_slower_is_found(attributed: Any) -> None:
    attribution = attributed("row-sum", "3.10.0", "3.11.0", "--metric", "run_seconds", "--no-phases")
    assert attribution["status"] == "parted"
    assert attribution["failure"]["signature"] == "metric:run_seconds"
    assert float(attribution["failure"]["details"]["low"]) > 1
    assert attribution["function"]["bad"].startswith("row_sum_dispatch_0")
    assert attribution["pass"]["name"] == "LLVMCPUTileAndFuseProducerConsumerPass"


LOOKUP = """
func.func @lookup(%table: tensor<1000x64xf16>, %rows: tensor<32xi32>) -> tensor<32x64xf16> {
  %empty = tensor.empty() : tensor<32x64xf16>
  %values = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]
  } ins(%rows : tensor<32xi32>) outs(%empty : tensor<32x64xf16>) {
  ^bb0(%row: i32, %unused: f16):
    %i = arith.index_cast %row : i32 to index
    %j = linalg.index 1 : index
    %value = tensor.extract %table[%i, %j] : tensor<1000x64xf16>
    linalg.yield %value : f16
  } -> tensor<32x64xf16>
  return %values : tensor<32x64xf16>
}
"""


@pytest.mark.slow
def test_other_computations_of_offsets_are_found_when_all_else_agrees(attributed: Any, tmp_path: Path) -> None:
    (tmp_path / "lookup.mlir").write_text(LOOKUP)
    (tmp_path / "lookup.yaml").write_text("name: lookup\ninput: lookup.mlir\ntarget: {backend: llvm-cpu}\n")
    attribution = attributed(tmp_path / "lookup.yaml", "3.10.0", "3.11.0", "--no-phases")
    assert attribution["status"] == "parted"
    assert attribution["pass"]["name"] == "IREECodegenLowerAffinePass"
    assert {"name": "arith.floordivsi", "good": "0", "bad": "4"} in attribution["pass"]["operations"]
    assert any("offsets" in note for note in attribution["notes"])
