"""New recipes of kernels: what is read off their code, and a kernel out of a package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.loading import load_recipes
from triage.compilers.base import KernelSpec
from triage.compilers.registry import recipe_families
from triage.compilers.triton.kernel_copy import copy_kernel, is_standalone
from triage.compilers.triton.kernel_guess import guess_kernel, guess_keys
from triage.compilers.triton.kernel_import import start_from_kernel
from triage.model.errors import BadInput
from triage.recipes.starter import new_recipe

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
    # a row for each step
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
OPS = """import os
import triton
import triton.language as tl
from ..constants import RATE as SPEED
from .. import versions

if versions.at_least(triton.__version__, 3):
    @triton.jit
    def exp(x): return tl.new(x)
    def unused(): pass
else:
    try:
        from triton.language.math import exp
    except ImportError:
        from .approximations import exp


@triton.jit
def decay(x, p):
    return x * exp(tl.load(p))[:, None] * SPEED
"""


VERSIONS = """def at_least(version, major):
    from .constants import RATE
    return int(version.partition(".")[0]) >= major and RATE
"""


@pytest.mark.parametrize("case", OURS, ids=lambda case: case.name)
def test_kinds_of_arguments_are_those_of_the_recipes_written_by_hand(case):
    guess = guess_kernel(case.input.path.read_text())

    def kinds(signature):
        return {name: "pointer" if kind[0] == "*" else kind[0] for name, kind in signature.items()}

    assert kinds(guess.signature) == kinds(case.spec.signature)
    assert set(guess.constexprs) == set(case.spec.constexprs)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in {
        "layers/__init__.py": "",
        "layers/linear.py": LINEAR,
        "layers/constants.py": "RATE = 0.5\nwidths = (1, 2)\n",
        "layers/versions.py": VERSIONS,
        "layers/parts/approximations.py": "import triton\n\n\n@triton.jit\ndef exp(x):\n    return x\n",
        "layers/machine.py": "import nothing_of_the_kind\nHAS_GPU = nothing_of_the_kind.gpu()\n",
        "layers/parts/__init__.py": "",
        "layers/parts/ops.py": OPS,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "layers" / "linear.py"


def test_a_kernel_leaves_its_package_with_what_it_uses(package):
    assert not is_standalone(package, LINEAR)
    copy = copy_kernel(package, LINEAR, "state")
    assert copy.problems == ()
    tree = ast.parse(copy.text)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions == ["at_least", "exp_approximations", "decay", "state"]
    assert copy.text.startswith("import triton\nimport triton.language as tl\n\n\nRATE = 0.5\n")
    assert "# a row for each step" in copy.text
    assert "b_k = decay(b_k" in copy.text
    assert "* RATE" in copy.text
    assert '@triton.jit(do_not_specialize=["T"])\ndef state(' in copy.text
    for gone in ("autotune", "heuristics", "torch", "GPU", "launch", "import layers", "from .", "unused"):
        assert gone not in copy.text
    assert is_standalone(package.with_name("alone.py"), copy.text)


def test_a_copy_keeps_the_branch_of_each_version(package):
    [branch] = [node for node in ast.parse(copy_kernel(package, LINEAR, "state").text).body if isinstance(node, ast.If)]
    assert ast.unparse(branch.test) == "at_least(triton.__version__, 3)"
    assert "tl.new(x)" in ast.unparse(branch.body[0])
    [attempt] = branch.orelse
    assert isinstance(attempt, ast.Try)
    assert ast.unparse(attempt.body[0]) == "from triton.language.math import exp"
    assert ast.unparse(attempt.handlers[0].body[0]) == "exp = exp_approximations"


def test_a_copy_reports_what_it_cannot_resolve(package):
    text = (
        LINEAR.replace("* RATE", "* RATE * MISSING * helper()") + "\nfrom einkopf import helper\nfrom .absent import MISSING\n"
    )
    problems = copy_kernel(package, text, "state").problems
    lines = text.splitlines()
    helper, absent = lines.index("from einkopf import helper") + 1, lines.index("from .absent import MISSING") + 1
    assert [problem.partition(": ")[0] for problem in problems] == [f"{package}:{helper}", f"{package}:{absent}"]
    used = 1 + next(number for number, line in enumerate(lines) if "* RATE" in line)
    text = LINEAR.replace("* RATE", "* RATE * UNBOUND")
    assert [problem.partition(": ")[0] for problem in copy_kernel(package, text, "state").problems] == [f"{package}:{used}"]


def test_two_definitions_of_one_name_are_both_copied(package):
    package.with_name("constants.py").write_text("import triton\nRATE = 0.5\n\n@triton.jit\ndef decay(x): return x\n")
    both = (
        LINEAR.replace("RATE, widths", "RATE, decay")
        .replace("b_k = fade(", "b_k = decay(fade(")
        .replace(") * RATE", ")) * RATE")
    )
    text = copy_kernel(package, both, "state").text
    names = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert {"decay", "decay_ops"} <= set(names) or {"decay", "decay_constants"} <= set(names)


def test_a_kernel_inside_a_function_is_copied_out_of_it(tmp_path):
    text = """def build():
    import triton
    import triton.language as tl

    @triton.jit
    def inner(x_ptr, N: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, N), 0)

    return inner
"""
    (tmp_path / "k.py").write_text(text)
    start = start_from_kernel(tmp_path / "new.yaml", tmp_path / "k.py", None, None, None)
    assert start is not None
    assert start.copied is not None
    tree = ast.parse(start.copied)
    assert [type(node).__name__ for node in tree.body] == ["Import", "Import", "FunctionDef"]


def test_files_that_import_below_a_condition_share_the_import(tmp_path):
    head = "from found import HAS\nif HAS:\n    import triton\n    import triton.language as tl\n\n    @triton.jit\n"
    (tmp_path / "found.py").write_text("HAS = True\n")
    (tmp_path / "low.py").write_text(f"{head}    def low(x):\n        return tl.exp(x)\n")
    body = "    def high(p):\n        tl.store(p, low(tl.load(p)))\n"
    text = head.replace("if HAS:\n", "if HAS:\n    from low import low\n") + body
    copy = copy_kernel(tmp_path / "high.py", text, "high")
    assert copy.problems == ()
    guess = guess_kernel(copy.text)
    assert guess is not None
    assert (guess.name, guess.signature) == ("high", {"p": "*fp16:16"})
    assert copy.text.count("@triton.jit") == 2


def test_launches_show_types_and_constants(package):
    launch = """

def forward(x, scale: float, causal: bool, starts=None):
    rows, n = x.shape
    out = torch.empty((rows, n), dtype=torch.bfloat16)
    state[(rows,)](x, g=torch.ones(n, dtype=torch.float32), out=out, starts=starts, T=x.stride(0), scale=scale,
                   K=triton.next_power_of_2(n), USE_G=True, FIRST=causal, num_warps=2)
"""
    guess = guess_kernel(LINEAR + launch, "state")
    assert guess.signature == {
        **dict.fromkeys(("k",), "*fp16:16"),
        "g": "*fp32:16",
        "out": "*bf16:16",
        "starts": "*i32:16",
        "T": "i32",
        "scale": "fp32",
    }
    assert guess.constexprs == {"K": 64, "BV": 32, "USE_G": True, "FIRST": False, "TF32": True}
    assert guess.guessed == {*guess.signature, "K", "FIRST"}
    lines = guess_keys(guess)
    assert "  K: 64  # guessed" in lines
    assert "  USE_G: true" in lines


def test_a_constant_that_is_used_as_a_type_is_one():
    text = """import triton
import triton.language as tl

@triton.jit
def cast(x_ptr, kind: tl.constexpr, mode: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if mode == "down":
        x = x.to(kind)
    tl.store(x_ptr + tl.arange(0, N), x)
"""
    assert guess_kernel(text).constexprs == {"kind": "tl.float32", "mode": "down", "N": 64}


COUNTS = """import triton
import triton.language as tl

@triton.jit
def bins(points: "torch.Tensor", seen, out, low: float, width: float, rows: int, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    point = tl.load(points + at)
    row = ((point - low) / width).to(tl.int32)
    place = tl.atomic_add(seen + row, 1, mask=row < rows)
    tl.store(out + row * rows + place, point)
"""


def test_annotations_and_counts_in_memory_give_types():
    signature = guess_kernel(COUNTS).signature
    assert (signature["low"], signature["width"], signature["rows"]) == ("fp32", "fp32", "i32")
    assert signature["seen"] == "*i32:16"
    assert signature["points"].startswith("*fp") or signature["points"].startswith("*bf")


def test_what_arguments_are_follows_from_how_they_are_used(package):
    guess = guess_kernel(copy_kernel(package, LINEAR, "state").text, "state")
    assert guess.signature == {
        "k": "*fp16:16",
        "g": "*fp16:16",
        "out": "*fp16:16",
        "starts": "*i32:16",
        "T": "i32",
        "scale": "fp32",
    }
    of_the_original = guess_kernel(LINEAR)
    assert of_the_original.constexprs == {"K": 64, "BV": 32, "USE_G": False, "FIRST": False, "TF32": True}
    assert of_the_original.options == {"num_warps": 8, "num_stages": 2}


def test_the_recipe_of_a_kernel_loads(folder):
    Path("k.py").write_text(
        "import triton\n\n@triton.jit\ndef one(x_ptr, n):\n    pass\n\n@triton.jit\ndef two(y_ptr):\n    pass\n"
    )
    start = start_from_kernel(Path("k.yaml"), Path("k.py"), "hip", None, "two")
    assert start is not None
    Path("k.yaml").write_text(new_recipe(recipe_families(), "k", "k.py", start))
    [case] = load_recipes([Path("k.yaml")])
    assert (case.compiler, case.spec.name, case.spec.signature) == ("triton", "two", {"y_ptr": "*fp16"})
    assert case.spec.hints == {"y_ptr": {"divisibility": 16}}


def test_what_cannot_be_guessed_is_reported(package):
    several = "@triton.jit\ndef one(x): pass\n@triton.jit\ndef two(x): pass\n"
    with pytest.raises(BadInput, match="several kernels; name one with --kernel: one, two"):
        guess_kernel(several)
    with pytest.raises(BadInput, match="no kernel 'three'; there is one, two"):
        guess_kernel(several, "three")
    assert guess_kernel("def f(x): pass") is None
    assert guess_kernel("import numba\n@numba.jit\ndef f(x): pass") is None
    assert guess_kernel("from triton import jit as kernel\n@kernel\ndef f(x): pass") is not None
    assert guess_kernel("def f(") is None
    with pytest.raises(BadInput, match="no top-level function 'nothing'"):
        copy_kernel(package, LINEAR, "nothing")
