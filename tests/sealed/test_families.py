"""What is compiled harms nothing, whatever family compiles it: programs that read, write
and start what they may not, on real compilers. Effects are looked at from outside.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Asked, Triage
from tests.programs import write_program
from tests.sealed.conftest import needs_seal
from tests.workshop import generated_input
from triage.processes import sealing

pytestmark = [
    pytest.mark.usefixtures("strictly_sealed", "shared_home"),
    needs_seal,
    pytest.mark.skipif(
        sealing.landlock_version() < 6, reason="this kernel seals no signals"
    ),
]


def write_recipe(folder: Path, keys: str) -> Path:
    recipe = folder / "r.yaml"
    recipe.write_text(f"name: r\n{keys}")
    return recipe


def test_a_command(tmp_path: Path, asked: Asked, attack: str) -> None:
    # of an own Python, every file of every package would be looked at
    python, reads = shutil.which("python3", path="/usr/bin"), ""
    if python is None:
        python = os.path.realpath(sys.executable)
        reads = f"reads: [{sys.base_prefix}/bin, {sys.base_prefix}/lib]\n"
    writes = "import sys\nopen(sys.argv[1], 'w').write('made')\n"
    write_program(tmp_path / "cc" / "compile.py", attack + writes)
    (tmp_path / "p.txt").write_text("p")
    command = f'["{python}", "{{toolchain}}/compile.py", "{{output}}"]'
    recipe = write_recipe(
        tmp_path, f"compiler: command\ninput: p.txt\ncommand: {command}\n{reads}"
    )
    asked("run", recipe, "-t", f"path:{tmp_path / 'cc'}")


def test_a_generator(tmp_path: Path, attack: str) -> None:
    (tmp_path / "make.py").write_text(f"{attack}print('module {{}}')\n")
    generated_input(write_recipe(tmp_path, "input: make.py\ntarget: {backend: vmvx}\n"))


KERNEL = """
import triton
import triton.language as tl
@triton.jit
def copy(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))
"""
OF_KERNEL = """compiler: triton
input: k.py
target: {backend: cuda, chip: sm_90}
kernel: copy
signature: {x: '*fp32', y: '*fp32'}
constexprs: {N: 64}
"""


@pytest.mark.real
@pytest.mark.core
def test_a_kernel_of_triton(tmp_path: Path, asked: Asked, attack: str) -> None:
    """Its file is a program, which runs when it is compiled."""
    (tmp_path / "k.py").write_text(KERNEL + attack)
    asked("run", write_recipe(tmp_path, OF_KERNEL), "-t", "triton:3.2.0")


@pytest.mark.real
def test_a_script_of_jax(tmp_path: Path, asked: Asked, attack: str) -> None:
    compiles = "\n@jax.jit\ndef f(x):\n    return x + 1\nf(1.0)\n"
    (tmp_path / "s.py").write_text(f"import jax\n{attack}{compiles}")
    recipe = write_recipe(
        tmp_path, "compiler: xla\ninput: s.py\ntarget: {backend: cpu}\n"
    )
    before = psutil.Process().children(recursive=True)
    asked("run", recipe, "-t", "xla:0.10.2")
    left = {*psutil.Process().children(recursive=True)}.difference(before)
    assert not [process for process in left if process.name().startswith("python")]


# A program of which an attribute names passes.
IREE = """util.func private @impl(%a: tensor<4xf32>) -> tensor<4xf32> attributes {
    inlining_policy = #util.inline.never,
    preprocessing_pipeline = #util.preprocessing_pipeline<"builtin.module(PASS)">} {
  %0 = arith.addf %a, %a : tensor<4xf32>
  builtin.module {}
  util.return %0 : tensor<4xf32>
}
util.func public @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @impl(%a) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %0 : tensor<4xf32>
}
"""


def compile_by_iree(
    folder: Path, triage: Triage, pass_: str, *words: str
) -> tuple[Any, str]:
    """Return the result of a program that names a pass, and all that was printed."""
    (folder / "p.mlir").write_text(IREE.replace("PASS", pass_))
    recipe = write_recipe(folder, "input: p.mlir\ntarget: {backend: vmvx}\n")
    done = triage("run", recipe, "-t", "3.3.0", "--format", "json", *words)
    [result] = json.loads(done.stdout)["results"]
    return result, done.stdout + done.stderr


@pytest.mark.real
@pytest.mark.core
def test_a_program_of_iree_that_writes(
    tmp_path: Path, victim: Path, triage: Triage
) -> None:
    target = victim / "written"
    writes = f"iree-util-dump-module{{path={target}}}"
    compile_by_iree(tmp_path, triage, writes)
    assert not target.exists()
    compile_by_iree(tmp_path, triage, writes, "--unsealed")
    assert target.exists(), "it is no attack"


@pytest.mark.real
@pytest.mark.core
def test_a_program_of_iree_that_reads(
    tmp_path: Path, victim: Path, triage: Triage
) -> None:
    private = victim / "private"
    reads = f"iree-preprocessing-apply-pdl-patterns{{patterns-file={private}}}"
    result, printed = compile_by_iree(tmp_path, triage, reads)
    assert private.read_text() not in printed
    assert result["status"] == "untestable"
    assert str(private) in result["reason"]
    result, _ = compile_by_iree(tmp_path, triage, reads, "--unsealed")
    assert "reads:" not in str(result["reason"]), "it is no attack: it was not read"
