"""Kernels on two releases of Triton, which keeps the download small."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Asked, Triage

pytestmark = pytest.mark.real
KERNEL = """import triton
import triton.language as tl

@triton.jit
def k(x_ptr):
    tl.store(x_ptr + tl.arange(0, 64), 1.0)
"""
WITH_EPS = """import triton
import triton.language as tl

@triton.jit
def k(x_ptr, EPS: tl.constexpr, BLOCK: tl.constexpr):
    x = x_ptr + tl.arange(0, BLOCK)
    tl.store(x, 1.0 / tl.sqrt(tl.load(x) + EPS))
"""
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


RECIPE = """
name: own
compiler: triton
input: k.py
signature: {x_ptr: "*fp32:16"}
target: {backend: cuda, chip: sm_90}
"""


def write_recipe(folder: Path, source: str, keys: str) -> Path:
    """Write a kernel and a recipe for it; return the recipe."""
    (folder / "k.py").write_text(source)
    recipe = yaml.safe_load(RECIPE) | yaml.safe_load(keys)
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


@pytest.mark.core
def test_variants_keep_the_types_of_constants(asked: Asked, tmp_path: Path) -> None:
    keys = """
constexprs: {EPS: "${EPS}", BLOCK: 64}
options: {num_warps: "${num_warps}"}
matrix: {EPS: [1e-5, 0.25], num_warps: [4, 8]}
"""
    recipe = write_recipe(tmp_path, WITH_EPS, keys)
    rows = asked("variants", recipe, "-t", "3.2.0", code=3)["results"]
    assert [(row["values"], row["status"]) for row in rows] == [
        ({"EPS": eps, "num_warps": warps}, "passed")
        for eps in ("1e-5", "0.25")
        for warps in ("4", "8")
    ]


@pytest.mark.core
@pytest.mark.parametrize(
    ("phase", "measured"), [("ttgir", set()), ("ptx", {"shared_bytes"})]
)
def test_a_compile_stops_after_the_phase(
    asked: Asked, tmp_path: Path, phase: str, measured: set[str]
) -> None:
    recipe = write_recipe(tmp_path, KERNEL, f"phase: {phase}")
    [row] = asked("run", recipe, "-t", "3.2.0")["results"]
    assert row["metrics"].keys() == {"artifact_bytes"} | measured


@pytest.mark.core
@pytest.mark.parametrize(
    ("value", "keys", "code", "keyword"),
    [
        ("tl.no_such_thing(1)", "{}", 3, "no_such_thing"),
        ("1.0", "options: {no_such_option: 1}", 3, "no_such_option"),
        ("1.0", 'signature: {y_ptr: "*fp32"}', 2, "y_ptr"),
        ("1.0", "kernel: other", 2, "other"),
        ("1.0", "{constexprs: {x_ptr: tl.float7}, signature: {}}", 3, "float7"),
    ],
)
def test_missing_features_and_wrong_recipes_are_untestable(
    asked: Asked,
    tmp_path: Path,
    value: str,
    keys: str,
    code: int,
    keyword: str,
) -> None:
    recipe = write_recipe(tmp_path, KERNEL.replace("1.0", value), keys)
    [result] = asked("run", recipe, "-t", "3.2.0", code=code)["results"]
    assert result["status"] == "untestable"
    assert keyword in result["reason"]


def test_generated_recipes_of_kernels_compile(
    triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    for kernel in sorted((ROOT / "recipes" / "kernels").glob("*.py")):
        path = tmp_path / "new" / f"{kernel.stem.replace('_', '-')}.yaml"
        done = triage("recipe", "new", path, "--input", kernel)
        assert done.returncode == 0, done.stderr
    results = asked("run", tmp_path / "new", "-t", "triton:3.2.0")["results"]
    assert [row["status"] for row in results] == ["passed"] * 7


@pytest.mark.slow
def test_a_reduced_kernel_is_readable(
    triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    keys = """
kernel: rule
constexprs: {K: 64}
options: {num_warps: 8, num_stages: 3}
signature: {k_ptr: "*bf16:16", v_ptr: "*bf16:16", out_ptr: "*fp32:16", steps: i32}
"""
    recipe = write_recipe(tmp_path, LOOP, keys)
    words = ("-t", "3.2.0", "--good", "3.1.0", "--out", tmp_path / "small")
    report = asked("reduce", recipe, *words)
    begin = "assertion:getTotalOutDimSize() == std::accumulate("
    assert report["signature"].startswith(begin)
    assert report["operations"]["after"] <= 9
    program = report["program"]
    assert program.count("def ") == 1
    assert "for " not in program
    assert "mask" not in program
    folder = Path(report["reproducer"])
    text = (folder / "recipe.yaml").read_text()
    assert yaml.safe_load(text)["options"] == {"num_warps": 8}
    assert "constexprs" not in text
    assert "steps" not in text
    assert "triton==3.2.0" in (folder / "README.md").read_text()
    assert triage("recipe", "validate", folder / "recipe.yaml").returncode == 0
