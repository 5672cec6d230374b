"""New recipes: of a pasted command line, of a kernel, and of other programs. What is
read off their code, and which flags a text may pass.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage
from tests.recipes.loading import load_recipes
from triage.classify.rules import read_yaml
from triage.compilers.base import KernelSpec
from triage.compilers.iree.command_line import IreeRecipes
from triage.compilers.pasted_text import calls_in, harmless_flags
from triage.compilers.triton.kernel_recipe import copy_kernel, is_standalone
from triage.compilers.triton.kernel_source import guess_kernel
from triage.model.case import Case
from triage.recipes.recipe import new_recipe

DATA = ROOT / "tests" / "data" / "compilers"
# Each form, and after `->` the recipe's backend, chip, phase and flags.
COMMANDS = (DATA / "pasted_commands.txt").read_text().strip().split("\n====\n")
LAUNCHES = read_yaml(DATA / "launches.yaml")
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


@pytest.mark.parametrize("form", COMMANDS, ids=lambda form: form[:60].split("\n")[0])
def test_a_recipe_has_the_target_and_the_flags_of_a_command_line(form: str) -> None:
    pasted, _, recipe = form.partition("\n->\n")
    call = next(calls_in(pasted, IreeRecipes.tools))
    start = IreeRecipes().from_call(call, None, None)
    assert new_recipe("pasted", "m.mlir", start)
    target = start.target
    assert target
    words = [target.backend, target.chip or "-", start.phase or "-", *start.flags]
    assert words + ["(assumed)"] * bool(start.assumed) == shlex.split(recipe)


NAMES = harmless_flags()
_OPTION = re.compile(
    r"^ {2,6}--?([A-Za-z][\w.+-]*)(=<[^>]*>)?\s+-\s+(.*)$", re.MULTILINE
)
_HARMFUL = re.compile(
    r"(?i)filename|file name|file path|\bpaths? to\b|director(?:y|ies)\b|\bdumps?\b|plug-?in|shell|external command|\bexe\b"
)
_READ = {  # their help uses such a word of something else
    "iree-codegen-gpu-create-fast-slow-path",  # code paths
    "iree-hal-link-executables",  # a remark on dumps
    "iree-hal-verify-devices",  # built-in plugins
    "iree-llvmcpu-enable-llvm-ukernels",  # a folder of the compiler's sources
}


@pytest.mark.real
@pytest.mark.parametrize(
    "version",
    ["2.9.0", pytest.param("3.3.0", marks=pytest.mark.core), "3.8.0", "3.13.0"],
)
def test_no_flag_that_texts_may_pass_speaks_of_files_or_programs(
    installed: Callable[[str], Path], version: str
) -> None:
    folder = installed(version) / "iree" / "compiler" / "_mlir_libs"
    known, harmful = set[str](), {}
    for tool in ("iree-compile", "iree-opt"):
        text = subprocess.run(
            [folder / tool, "--help-hidden"], capture_output=True, text=True, check=True
        ).stdout
        for match in _OPTION.finditer(text):
            name, _, described = match.groups()
            known.add(name)
            if (
                name in NAMES
                and name not in _READ
                and _HARMFUL.search(f"{name} {described}")
            ):
                harmful[name] = described
    assert harmful == {}
    assert len(known & NAMES) > 400


@pytest.mark.parametrize("case", OURS, ids=lambda case: case.name)
def test_kinds_of_arguments_are_those_of_the_recipes_written_by_hand(
    case: Case,
) -> None:
    def kinds(signature: Mapping[str, str]) -> dict[str, str]:
        """The first characters tell pointers, integers and floats."""
        return {name: kind[0] for name, kind in signature.items()}

    guess = guess_kernel(case.input.path.read_text())
    assert kinds(guess.signature) == kinds(case.spec.signature)
    assert set(guess.constexprs) == set(case.spec.constexprs)


def test_a_kernel_leaves_its_package_with_what_it_uses(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert not is_standalone(LINEAR)
    text = copy_kernel(tmp_path / "layers" / "linear.py", LINEAR, "state")
    assert is_standalone(text)
    tree = ast.parse(text).body
    functions = [node.name for node in tree if isinstance(node, ast.FunctionDef)]
    assert functions == ["at_least", "decay", "state"]
    for kept in (
        "fade = decay",
        "if at_least(triton.__version__, 3):",
        "@triton.jit(do_not_specialize=['T'])\ndef state(",
    ):
        assert kept in text.replace('"', "'")
    gone = re.compile("autotune|heuristics|torch|GPU|launch|import layers|from \\.")
    assert not gone.search(text)


@pytest.mark.parametrize("made", LAUNCHES)
def test_the_types_of_a_launch_decide_those_of_the_arguments(made: str) -> None:
    guess = guess_kernel(LAUNCHED % made)
    pointer = f"*{LAUNCHES[made]}:16"
    assert guess
    assert guess.signature == {"x": pointer, "y": pointer, "n": "i32"}
    assert not {"x", "y"} & guess.guessed.keys()


@pytest.mark.parametrize(
    ("source", "compiler", "backend"),
    [
        ("k.ttir", "triton", "cuda"),
        ("f.py", "xla", "cpu"),
        ("p.hlo", "xla", "cpu"),
        ("issue.md", "xla", "cpu"),
    ],
)
def test_the_program_says_which_family_compiles_it(
    triage: Triage, workplace: Path, source: str, compiler: str, backend: str
) -> None:
    (workplace / "k.ttir").write_text("module {\n  tt.func @k() { tt.return }\n}\n")
    (workplace / "f.py").write_text("import jax\n\nprint(jax.jit(abs)(-1))\n")
    module = "`run_hlo_module` dies:\n```\nfunc.func @f() { return }\n```\n"
    (workplace / "issue.md").write_text(module)
    (workplace / "p.hlo").write_text((DATA / "reduce.hlo").read_text())
    done = triage("recipe", "new", "r.yaml", "--input", source)
    assert done.returncode == 0
    [case] = load_recipes([workplace / "r.yaml"])
    assert (case.compiler, case.target.backend) == (compiler, backend)
