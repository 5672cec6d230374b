"""Recipes that `triage recipe new` writes for kernels compile unchanged on a release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real
PACKAGE = {
    "layers/__init__.py": "",
    "layers/constants.py": "import triton.language as tl\n\nRATE = tl.constexpr(0.5)\n",
    "layers/ops.py": """import triton
import triton.language as tl
from layers.constants import RATE


@triton.jit
def decay(x, p):
    return x * tl.exp(tl.load(p).to(tl.float32))[:, None] * RATE
""",
    "layers/linear.py": """import torch
import triton
import triton.language as tl

from layers.machine import WARPS
from layers.ops import decay as fade


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in WARPS], key=["T"])
@triton.jit
def state(k, g, out, starts, scale, K: tl.constexpr, USE_G: tl.constexpr):
    first = tl.load(starts + tl.program_id(0))
    rows = first + tl.arange(0, 16)
    b_k = tl.load(k + rows[:, None] * K + tl.arange(0, K)[None, :]) * scale
    if USE_G:
        b_k = fade(b_k, g + rows)
    tl.store(out + rows[:, None] * K + tl.arange(0, K)[None, :], b_k)
""",
}


def test_generated_recipes_of_kernels_compile(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    for kernel in sorted((ROOT / "recipes" / "kernels").glob("*.py")):
        path = tmp_path / "new" / f"{kernel.stem.replace('_', '-')}.yaml"
        done = triage("recipe", "new", path, "--input", kernel)
        assert done.returncode == 0, done.stderr
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    words = ["--input", tmp_path / "layers" / "linear.py:state"]
    done = triage(
        "recipe", "new", tmp_path / "new" / "state.yaml", *words, "--format", "json"
    )
    document = json.loads(done.stdout)
    assert document["input"] == str(tmp_path / "new" / "state.py")
    path = tmp_path / "new" / "state.yaml"
    # only another kernel loads `g`, so that it was guessed to be a number
    text = path.read_text().replace("g: i32", 'g: "*fp16"')
    path.write_text(text.replace("USE_G: false", "USE_G: true"))
    done = triage("run", tmp_path / "new", "-t", "triton:3.2.0", "--format", "json")
    results = json.loads(done.stdout)["results"]
    assert {result["case"]: result["status"] for result in results} == dict.fromkeys(
        (result["case"] for result in results), "passed"
    )
    assert len(results) == 8
