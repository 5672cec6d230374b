"""New recipes of kernels: what is read off their code, a kernel out of a package, and corrections by what a compiler says."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.loading import load_recipes
from triage.compilers.base import KernelSpec
from triage.compilers.registry import recipe_families
from triage.compilers.triton.kernel_copy import copy_kernel, is_standalone
from triage.compilers.triton.kernel_recipe import KernelStart, improve, start_from_kernel
from triage.compilers.triton.kernel_source import guess_kernel
from triage.model.errors import BadInput
from triage.model.execution import Captured, Ending, Execution
from triage.recipes.starter import new_recipe, with_questions

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
OPS = """import triton
import triton.language as tl
from ..constants import RATE as SPEED
from .. import versions

if versions.at_least(triton.__version__, 3):
    @triton.jit
    def exp(x): return tl.new(x)
else:
    from .approximations import exp


@triton.jit
def decay(x, p):
    return x * exp(tl.load(p))[:, None] * SPEED
"""
FILES = {
    "layers/__init__.py": "",
    "layers/linear.py": LINEAR,
    "layers/constants.py": "RATE = 0.5\nwidths = (1, 2)\n",
    "layers/versions.py": "def at_least(version, major):\n    from .constants import RATE\n    return RATE\n",
    "layers/parts/approximations.py": "import triton\n\n\n@triton.jit\ndef exp(x):\n    return x\n",
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
        return {name: "pointer" if kind[0] == "*" else kind[0] for name, kind in signature.items()}

    assert kinds(guess.signature) == kinds(case.spec.signature)
    assert set(guess.constexprs) == set(case.spec.constexprs)


def test_a_kernel_leaves_its_package_with_what_it_uses(package):
    assert not is_standalone(package, LINEAR)
    text, problems = copy_kernel(package, LINEAR, "state")
    assert problems == ()
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert functions == ["exp", "at_least", "decay", "state"]
    assert "# a row for each step" in text
    assert "fade = decay" in text
    assert "if at_least(triton.__version__, 3):" in text
    assert '@triton.jit(do_not_specialize=["T"])\ndef state(' in text.replace("'", '"')
    for gone in ("autotune", "heuristics", "torch", "GPU", "launch", "import layers", "from ."):
        assert gone not in text
    assert is_standalone(package.with_name("alone.py"), text)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("import torch\n", "import torch\nfrom einkopf import helper\n", "from einkopf"),
        ("import torch\n", "import torch\nfrom .absent import helper\n", "from .absent"),
        ("* RATE", "* RATE * helper()", "* RATE"),
    ],
)
def test_a_copy_reports_what_it_cannot_resolve(package, old, new, line):
    text = LINEAR.replace(old, new).replace("b_k = fade", "b_k = helper() * fade" if "torch" in old else "b_k = fade")
    _, [problem] = copy_kernel(package, text, "state")
    number = 1 + next(index for index, each in enumerate(text.splitlines()) if line in each)
    assert problem.startswith(f"{package}:{number}: ")


def test_a_program_that_launches_its_kernel_is_copied(tmp_path):
    text = FILES["layers/parts/approximations.py"] + "\nprint(1)\n"
    (tmp_path / "k.py").write_text(text)
    start = start_from_kernel(tmp_path / "new.yaml", tmp_path / "k.py", None, None, None)
    assert start.copied is not None
    assert "print" not in start.copied


LAUNCH = """

def forward(x, scale: float, causal: bool, starts=None):
    rows, n = x.shape
    out = torch.empty((rows, n), dtype=torch.bfloat16)
    state[(rows,)](x, g=torch.ones(n, dtype=torch.float32), out=out, starts=starts, T=x.stride(0), scale=scale,
                   K=triton.next_power_of_2(n), USE_G=True, FIRST=causal, num_warps=2)
"""


def test_launches_configurations_and_defaults_show_values(package):
    guess = guess_kernel(LINEAR + LAUNCH, "state")
    assert guess.signature == {
        "k": "*fp16:16",
        "g": "*fp32:16",
        "out": "*bf16:16",
        "starts": "*i32:16",
        "T": "i32",
        "scale": "fp32",
    }
    assert guess.constexprs == {"K": 64, "BV": 32, "USE_G": True, "FIRST": False, "TF32": True}
    assert guess.options == {"num_warps": 8, "num_stages": 2}
    assert guess.guessed == {*guess.signature, "K", "FIRST"}
    start = start_from_kernel(package.with_name("new.yaml"), package, None, None, "state")
    assert "  K: 64  # guessed" in start.keys


CAST = """import triton
import triton.language as tl

@triton.jit
def cast(x_ptr, kind: tl.constexpr, mode: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if mode == "down":
        x = x.to(kind)
    tl.store(x_ptr + tl.arange(0, N), x)
"""
BLOCKS = """import triton
import triton.language as tl

@triton.jit
def read(x, rows):
    tl.load(tl.make_block_ptr(base=x + 1, shape=(rows,), strides=(1,), offsets=(0,), block_shape=(16,), order=(0,)))
"""
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


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (CAST, {"x_ptr": "*fp16:16", "kind": "tl.float32", "mode": "down", "N": 64}),
        (CAST.replace("tl.load(x_ptr +", "tl.load(pointer=x_ptr +"), {"x_ptr": "*fp16:16"}),
        (BLOCKS, {"x": "*fp16:16", "rows": "i32"}),
        (COUNTS, {"low": "fp32", "width": "fp32", "rows": "i32", "seen": "*i32:16", "points": "*fp16:16"}),
    ],
)
def test_what_arguments_are_follows_from_how_they_are_used(text, values):
    guess = guess_kernel(text)
    assert {**guess.signature, **guess.constexprs}.items() >= values.items()


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


def test_which_kernel_is_meant(package):
    several = "@triton.jit\ndef one(x): pass\n@triton.jit\ndef two(x): pass\n"
    with pytest.raises(BadInput, match="one, two"):
        guess_kernel(several)
    with pytest.raises(BadInput, match="three"):
        guess_kernel(several, "three")
    for text in ("def f(x): pass", "import numba\n@numba.jit\ndef f(x): pass", "def f("):
        assert guess_kernel(text) is None
    assert guess_kernel("from triton import jit as kernel\n@kernel\ndef f(x): pass") is not None


GATHER = """import triton
import triton.language as tl

@triton.jit
def gather(out, rows, kind: tl.constexpr, N: tl.constexpr):
    row = tl.load(rows + tl.arange(0, N))
    value = row * 2
    tl.store(out + tl.arange(0, N), value.to(helper(kind)))
"""


def executed(refused: tuple[int, list[str], str] | None) -> Execution:
    if refused is None:
        return Execution(("x",), Ending.EXITED, 0, None, 0, 0, 0, Captured('triage: {"stage": "ttir"}\n'), Captured())
    line, names, message = refused
    report = json.dumps({"refused": {"line": line, "names": names}})
    return Execution(("x",), Ending.EXITED, 1, None, 0, 0, 0, Captured(f"triage: {report}\n"), Captured(f"error: {message}\n"))


@pytest.fixture
def start(tmp_path: Path) -> KernelStart:
    (tmp_path / "kernel.py").write_text(GATHER)
    start = start_from_kernel(tmp_path / "new.yaml", tmp_path / "kernel.py", None, None, None)
    assert isinstance(start, KernelStart)
    return start


def test_errors_correct_a_guess(start: KernelStart) -> None:
    def compile_(candidate: KernelStart) -> Execution:
        if candidate.guess.signature["rows"] != "*i32:16":
            return executed((4, ["value", "row"], "atomic_or does not support fp16"))
        if not str(candidate.guess.constexprs["kind"]).startswith("tl."):
            return executed((5, ["kind", "value", "out"], "AttributeError(\"'int' object has no attribute 'scalar'\")"))
        return executed(None)

    better = improve(start, compile_)
    assert better.guess.signature == {"out": "*fp16:16", "rows": "*i32:16"}
    assert better.guess.constexprs["kind"] == "tl.float32"
    assert not better.unknown


def test_what_never_compiles_becomes_a_question_after_three_compiles(start: KernelStart, tmp_path: Path) -> None:
    compiles = []

    def compile_(candidate: KernelStart) -> Execution:
        compiles.append(candidate)
        return executed((1, ["rows"], f"ValueError('reason {len(compiles)}')"))

    better = improve(start, compile_)
    assert len(compiles) <= 3
    assert better.unknown == ("N", "kind")
    recipe = tmp_path / "new.yaml"
    recipe.write_text(with_questions(new_recipe(recipe_families(), "new", "kernel.py", better), better.unknown))
    assert 'N: "?"  #' in recipe.read_text()
    with pytest.raises(BadInput, match="not known"):
        load_recipes([recipe])
