"""Reductions of a kernel and of a Cython program; their folders work without this
program.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conftest import Asked, Triage

pytestmark = pytest.mark.real
# The delta rule without its width, with one product in a helper function and code that
# the failure does not need.
LOOP = """import triton
import triton.language as tl


def helper():
    return 3


@triton.jit
def corrected(left, right, scale):
    product = tl.dot(tl.trans(left), right)
    return product * scale


@triton.jit
def rule(k_ptr, v_ptr, out_ptr, steps, K: tl.constexpr):
    row = tl.arange(0, K)
    for step in range(0, steps):
        k = tl.load(k_ptr + row[:, None] * K + row[None, :])
        v = tl.load(v_ptr + step * K * K + row[:, None] * K + row[None, :], mask=row[:, None] < K, other=0.0)
        residual = tl.dot(k, v).to(tl.bfloat16)
        tl.store(out_ptr + row[:, None] * K + row[None, :], corrected(k, residual, scale=2))
"""


@pytest.mark.slow
def test_a_reduced_kernel_is_readable(
    triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    (tmp_path / "rule.py").write_text(LOOP)
    (tmp_path / "rule.yaml").write_text(
        "name: rule\ncompiler: triton\ninput: rule.py\nkernel: rule\nconstexprs: {K: 64}\noptions: {num_warps: 8, num_stages: 3}\n"
        'signature: {k_ptr: "*bf16:16", v_ptr: "*bf16:16", out_ptr: "*fp32:16", steps: i32}\n'
        "target: {backend: cuda, chip: sm_90}\n"
    )
    words = ("-t", "3.2.0", "--good", "3.1.0", "--out", tmp_path / "small")
    report = asked("reduce", tmp_path / "rule.yaml", *words)
    assert report["signature"].startswith(
        "assertion:getTotalOutDimSize() == std::accumulate("
    )
    assert report["operations"]["after"] <= 9
    assert report["program"].count("def ") == 1
    assert "for " not in report["program"]
    assert "mask" not in report["program"]
    folder = Path(report["reproducer"])
    assert {path.name for path in folder.iterdir()} == {
        "input.py",
        "repro.py",
        "recipe.yaml",
        "reproducer.json",
        "repro.sh",
        "README.md",
    }
    recipe = (folder / "recipe.yaml").read_text()
    assert yaml.safe_load(recipe)["options"] == {"num_warps": 8}
    assert "constexprs" not in recipe
    assert "steps" not in recipe
    assert "triton==3.2.0" in (folder / "README.md").read_text()
    assert triage("recipe", "validate", folder / "recipe.yaml").returncode == 0

    [replayed] = asked("replay", tmp_path / "small", "-t", "3.2.0", "-t", "3.1.0")[
        "reproducers"
    ]
    assert [*replayed["states"].values()] == [
        "reproduces",
        "fixed",
    ]
