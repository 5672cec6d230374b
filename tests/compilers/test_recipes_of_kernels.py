"""New recipes of kernels: what is read off their code, a kernel out of a package, and
corrections by what a compiler says.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage
from tests.recipes.loading import load_recipes
from triage.compilers.kernel import KernelSpec
from triage.compilers.triton.kernel_recipe import copy_kernel, is_standalone
from triage.compilers.triton.kernel_source import guess_kernel

OURS = [
    case
    for case in load_recipes(sorted((ROOT / "recipes").glob("triton-*.yaml")))
    if isinstance(case.spec, KernelSpec) and case.input.path.suffix == ".py"
]
LINEAR = """import torch
import triton
import triton.language as tl

from .parts.ops import decay as fade
from layers.constants import RATE, widths
from .machine import HAS_GPU


@triton.heuristics({"USE_G": lambda args: args["g"] is not None})
@triton.autotune(
    configs=[triton.Config({"BV": 32}, num_warps=8, num_stages=2), triton.Config({"BV": 64}, num_warps=4)],
    key=["T"],
)
@triton.jit(do_not_specialize=["T"])
def state(k, g, out, starts, T, scale, K: tl.constexpr, BV: tl.constexpr, USE_G: tl.constexpr, FIRST: tl.constexpr,
          TF32: tl.constexpr = True):
    begin, end = tl.load(starts).to(tl.int64), tl.load(starts + 1).to(tl.int64)
    T = end - begin
    k += begin * K
    p_k = tl.make_block_ptr(k, (T, K), (K, 1), (0, 0), (16, BV), (1, 0))
    b_k = tl.load(p_k, boundary_check=(0, 1)) * scale
    if USE_G:
        b_k = fade(b_k, g + tl.arange(0, 16)) * RATE
    if not FIRST:
        tl.store(out + tl.arange(0, 16)[:, None] * K + tl.arange(0, BV)[None, :], b_k)


def launch(x):
    torch.empty(widths)
    return HAS_GPU
"""
OPS = """import triton
import triton.language as tl
from ..constants import RATE as SPEED
from ..versions import at_least

if at_least(triton.__version__, 3):
    @triton.jit
    def exp(x): return tl.new(x)
else:
    exp = tl.exp


@triton.jit
def decay(x, p):
    return x * exp(tl.load(p))[:, None] * SPEED
"""
FILES = {
    "layers/__init__.py": "",
    "layers/linear.py": LINEAR,
    "layers/constants.py": "RATE = 0.5\nwidths = (1, 2)\n",
    "layers/versions.py": "def at_least(version, major):\n    return True\n",
    "layers/machine.py": "import nothing_of_the_kind\nHAS_GPU = nothing_of_the_kind.gpu()\n",
    "layers/parts/__init__.py": "",
    "layers/parts/ops.py": OPS,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "layers" / "linear.py"


@pytest.mark.parametrize("case", OURS, ids=lambda case: case.name)
def test_kinds_of_arguments_are_those_of_the_recipes_written_by_hand(case):
    guess = guess_kernel(case.input.path.read_text())

    def kinds(signature):
        return {
            name: "pointer" if kind[0] == "*" else kind[0]
            for name, kind in signature.items()
        }

    assert kinds(guess.signature) == kinds(case.spec.signature)
    assert set(guess.constexprs) == set(case.spec.constexprs)


def test_a_kernel_leaves_its_package_with_what_it_uses(package):
    assert not is_standalone(LINEAR)
    text = copy_kernel(package, LINEAR, "state")
    functions = [
        node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)
    ]
    assert functions == ["at_least", "decay", "state"]
    assert "fade = decay" in text
    assert "if at_least(triton.__version__, 3):" in text
    assert '@triton.jit(do_not_specialize=["T"])\ndef state(' in text.replace("'", '"')
    for gone in (
        "autotune",
        "heuristics",
        "torch",
        "GPU",
        "launch",
        "import layers",
        "from .",
    ):
        assert gone not in text
    assert is_standalone(text)


LAUNCHED = """import torch
import triton
import triton.language as tl

HALF = torch.float16


@triton.jit
def scale(x, y, n, size: tl.constexpr):
    at = tl.arange(0, size).to(tl.float16)
    data = at.to(tl.int64)  # not the variable of `run`
    tl.store(y + at, tl.load(x + at, at < n))


def run(data, kind=torch.bfloat16):
    other = torch.empty_like(data)
    scale[(1,)](data, other, data.numel(), size=64)


run(%s)
"""


@pytest.mark.parametrize(
    ("made", "element"),
    [
        ("torch.randn(8, dtype=torch.float32)", "fp32"),
        ("torch.randn(8, 4)", "fp32"),
        ("torch.ones(8).half().cuda()", "fp16"),
        ("torch.ones(8, dtype=HALF)", "fp16"),
        ("torch.arange(8).to('cuda', torch.bfloat16)", "bf16"),
        ("torch.relu(torch.rand(8).double())", "fp64"),
        ("data=torch.zeros(8).long().view(2, 4)", "i64"),
    ],
)
def test_the_types_of_a_launch_decide_those_of_the_arguments(
    made: str, element: str
) -> None:
    guess = guess_kernel(LAUNCHED % made)
    assert guess is not None
    pointers = {"x": f"*{element}:16", "y": f"*{element}:16"}
    assert guess.signature == {**pointers, "n": "i32"}
    assert not {"x", "y"} & guess.guessed.keys()


def test_a_file_of_tritons_ir_starts_a_recipe(triage: Triage, workplace: Path) -> None:
    (workplace / "k.ttir").write_text("module {\n  tt.func @k() { tt.return }\n}\n")
    assert triage("recipe", "new", "r.yaml", "--input", "k.ttir").returncode == 0
    [case] = load_recipes([workplace / "r.yaml"])
    assert (case.compiler, case.target.backend) == ("triton", "cuda")
