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


CONVOLUTION = """\
func.func @conv(%x: tensor<2x34x34x128xf16>, %w: tensor<3x3x128x256xf16>) -> tensor<2x32x32x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32x256xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32x256xf32>) -> tensor<2x32x32x256xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<2x34x34x128xf16>, tensor<3x3x128x256xf16>) outs(%i : tensor<2x32x32x256xf32>) -> tensor<2x32x32x256xf32>
  return %r : tensor<2x32x32x256xf32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("good", "bad", "name", "what"),
    [
        # 3.7.0 writes the convolution as linalg.generic before it chooses tile sizes
        (
            "3.6.0",
            "3.7.0",
            "LLVMGPUSelectLoweringStrategyPass",
            "lowering_config.reduction",
        ),
    ],
)
def test_other_spellings_of_a_program_do_not_hide_what_changed(
    attributed: Any, tmp_path: Path, good: str, bad: str, name: str, what: str
) -> None:
    (tmp_path / "conv.mlir").write_text(CONVOLUTION)
    recipe = tmp_path / "conv.yaml"
    recipe.write_text(
        "name: conv\ncompiler: iree\ninput: conv.mlir\n"
        "target: {backend: rocm, chip: gfx1100}\n"
    )
    attribution = attributed(recipe, good, bad)
    assert attribution["pass"]["name"] == name
    assert attribution["other"] is None
    differences = (*attribution["pass"]["operations"], *attribution["pass"]["choices"])
    assert what in [difference["name"] for difference in differences]
