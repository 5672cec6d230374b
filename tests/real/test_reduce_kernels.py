"""Reductions of a kernel and of what Cython crashes on, and that the folders are good for who has no triage."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage
from triage.compilers.interpreters import interpreter

pytestmark = pytest.mark.real
# The delta rule without its width, one product in a function of its own, and what a kernel has around it.
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


def answer(triage: Triage, *words: object, code: int = 0) -> Any:
    done = triage(*words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def script_on(folder: Path, root: Path, python: str) -> int:
    stub = folder.parent / "stub" / "setuptools.py"  # imported by these releases, and used for nothing
    stub.parent.mkdir(exist_ok=True)
    stub.touch()
    env = {
        **os.environ,
        "PYTHONPATH": f"{root}{os.pathsep}{stub.parent}",
        "PYTHON": python,
        "TRITON_CACHE_DIR": str(folder.parent / f"cache{root.name}"),
    }
    return subprocess.run([folder / "repro.sh"], env=env, capture_output=True, check=False, cwd="/").returncode


def test_a_kernel_is_left_that_a_person_would_write(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text(LOOP)
    (tmp_path / "rule.yaml").write_text(
        "name: rule\ncompiler: triton\ninput: rule.py\nconstexprs: {K: 64}\noptions: {num_warps: 8, num_stages: 3}\n"
        'signature: {k_ptr: "*bf16:16", v_ptr: "*bf16:16", out_ptr: "*fp32:16", steps: i32}\n'
        "target: {backend: cuda, chip: sm_90}\n"
    )
    told = answer(triage, "reduce", tmp_path / "rule.yaml", "-t", "3.2.0", "--good", "3.1.0", "--out", tmp_path / "small")
    assert told["signature"].startswith("assertion:getTotalOutDimSize() == std::accumulate(")
    assert told["operations"]["after"] <= 9
    assert told["program"].count("def ") == 1
    assert "for " not in told["program"]
    assert "mask" not in told["program"]
    folder = Path(told["reproducer"])
    assert {one.name for one in folder.iterdir()} == {
        "input.py",
        "repro.py",
        "recipe.yaml",
        "reproducer.json",
        "repro.sh",
        "README.md",
    }
    recipe = (folder / "recipe.yaml").read_text()
    assert "options: {num_warps: 8}\n" in recipe
    assert "constexprs" not in recipe
    assert "steps" not in recipe
    assert "triton==3.2.0" in (folder / "README.md").read_text()
    assert triage("recipe", "validate", folder / "recipe.yaml").returncode == 0

    [replayed] = answer(triage, "replay", tmp_path / "small", "-t", "3.2.0", "-t", "3.1.0")["reproducers"]
    assert [one["status"] for one in replayed["versions"]] == ["reproduces", "fixed"]
    # Two compilers whose releases go by one name, in one replay.
    both = answer(triage, "replay", tmp_path / "small", ROOT / "reproducers/cuda-matmul-f32", "-t", "3.2.0")["reproducers"]
    assert [one["status"] for one in both] == ["reproduces", "reproduces"]
    roots = {version: next((shared_home / "toolchains").glob(f"triton-{version}-*")) for version in ("3.2.0", "3.1.0")}
    tags = next(roots["3.2.0"].glob("triton-*.dist-info/WHEEL")).read_text()
    wanted = re.search(r"^Tag: cp3(\d+)-", tags, re.MULTILINE)
    assert wanted
    found = interpreter((3, int(wanted[1])))
    assert found
    python = str(found)
    assert script_on(folder, roots["3.2.0"], python) == -signal.SIGABRT
    assert script_on(folder, roots["3.1.0"], python) == 0
    assert script_on(folder, tmp_path, python) == 127


def test_what_cython_crashes_on_is_reduced_with_its_own_rules(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ["-t", "3.0.0", "--good", "0.29.37", "--out", tmp_path / "small"]
    told = answer(triage, "reduce", ROOT / "recipes/cython-static-method.yaml", *words)
    assert told["signature"] == "cython-crash:AnalyseExpressionsTransform"
    assert told["lines"] == {"before": 10, "after": 8}
    folder = Path(told["reproducer"])
    assert {one.name for one in folder.iterdir()} == {
        "input.pyx",
        "failure.rules",
        "recipe.yaml",
        "reproducer.json",
        "repro.sh",
        "README.md",
    }
    [replayed] = answer(triage, "replay", tmp_path / "small", "-t", "3.0.0", "-t", "0.29.37")["reproducers"]
    assert [one["status"] for one in replayed["versions"]] == ["reproduces", "fixed"]
    for version, code in (("3.0.0", 1), ("0.29.37", 0)):
        [environment] = (shared_home / "toolchains").glob(f"venv-cython-{version}-*")
        env = {**os.environ, "PYTHON": str(environment / "bin/python")}
        done = subprocess.run([folder / "repro.sh"], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("Compiler crash in AnalyseExpressionsTransform" in done.stderr) is bool(code)
