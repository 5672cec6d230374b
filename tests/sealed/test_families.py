"""What is compiled harms nothing, whatever family compiles it: programs that read, write
and start what they may not, on real compilers. Effects are looked at from outside.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Triage
from tests.execution.test_inputs import NO_TOOLCHAIN
from tests.processes.test_sealing import (
    ATTACKS,
    bystander,  # noqa: F401
    state_of,
    victim,  # noqa: F401
)
from tests.programs import write_program
from triage.compilers.registry import load_cases
from triage.execution.engine import open_engine
from triage.execution.task import Prepared
from triage.processes import sealing

pytestmark = [
    pytest.mark.usefixtures("strictly_sealed"),
    pytest.mark.skipif(
        sealing.landlock_version() < 6 or not sealing.can_seal(),
        reason="this kernel seals nothing, or no signals",
    ),
]
#: Runs every attack of `tests/processes/attacks.py`, and goes on.
ATTACKING = """
import sys as _sys
def _attack():
    _names = {{"__name__": "attacks", "__file__": __file__}}
    exec({source!r}, _names)
    for _name, _action in _names["attacks"]({victim!r}, {pid}):
        _names["in_child"](_action)
_attack()
"""


@pytest.fixture
def attack(
    victim: Path,  # noqa: F811 - a fixture
    bystander: subprocess.Popen[bytes],  # noqa: F811
) -> Iterator[Callable[[], str]]:
    """Returns Python code that attacks a folder and a process. Afterwards, both must be
    as before.
    """
    before = state_of(victim, bystander)
    asked: list[str] = []

    def code() -> str:
        values = {"victim": str(victim), "pid": bystander.pid}
        asked.append(ATTACKING.format(source=ATTACKS.read_text(), **values))
        return asked[-1]

    yield code
    assert state_of(victim, bystander) == before
    assert bystander.poll() is None
    assert asked


def passes(triage: Triage, folder: Path, recipe: str, rev: str) -> bool:
    (folder / "r.yaml").write_text(f"name: r\n{recipe}")
    done = triage("run", folder / "r.yaml", "-t", rev, "--format", "json")
    [result] = json.loads(done.stdout)["results"]
    return result["status"] == "passed"


def test_a_command(
    tmp_path: Path, home: Path, triage: Triage, attack: Callable[[], str]
) -> None:
    del home
    # of an own Python, every file of every package would be looked at
    python, reads = shutil.which("python3", path="/usr/bin"), ""
    if python is None:
        python = os.path.realpath(sys.executable)
        reads = f"reads: [{sys.base_prefix}/bin, {sys.base_prefix}/lib]\n"
    write_program(
        tmp_path / "cc" / "compile.py",
        attack() + "\nopen(_sys.argv[1], 'w').write('made')\n",
    )
    recipe = (
        "compiler: command\ninput: p.txt\n"
        f'command: ["{python}", "{{toolchain}}/compile.py", "{{output}}"]\n'
        f"{reads}"
    )
    (tmp_path / "p.txt").write_text("p")
    assert passes(triage, tmp_path, recipe, f"path:{tmp_path / 'cc'}")


def test_a_generator(
    tmp_path: Path, shared_home: Path, attack: Callable[[], str]
) -> None:
    del shared_home
    (tmp_path / "make.py").write_text(attack() + "\nprint('module {}')\n")
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: r\ninput: make.py\ntarget: {backend: vmvx}\n")
    [case] = load_cases([recipe])
    with open_engine([case]) as engine:
        assert isinstance(engine.inputs.input_of(case, NO_TOOLCHAIN), Prepared)


IREE = """util.func private @impl(%a: tensor<4xf32>) -> tensor<4xf32> attributes {{
    inlining_policy = #util.inline.never,
    preprocessing_pipeline = #util.preprocessing_pipeline<"{pipeline}">}} {{
  %0 = arith.addf %a, %a : tensor<4xf32>
  builtin.module {{}}
  util.return %0 : tensor<4xf32>
}}
util.func public @f(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = util.call @impl(%a) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %0 : tensor<4xf32>
}}
"""
WRITES = "builtin.module(iree-util-dump-module{{path={folder}/written}})"
READS = "builtin.module(iree-preprocessing-apply-pdl-patterns{{patterns-file={folder}/private}})"


def compiled_by_iree(
    pipeline: str, folder: Path, triage: Triage, *words: str
) -> tuple[dict[str, object], str]:
    """Return the result of a program of which an attribute names passes, and all that
    was printed.
    """
    text = IREE.format(pipeline=pipeline.format(folder=folder / "victim"))
    (folder / "p.mlir").write_text(text)
    recipe = folder / "r.yaml"
    recipe.write_text("name: r\ninput: p.mlir\ntarget: {backend: vmvx}\n")
    done = triage("run", recipe, "-t", "3.3.0", "--format", "json", *words)
    [result] = json.loads(done.stdout)["results"]
    return result, done.stdout + done.stderr


@pytest.mark.real
@pytest.mark.core
def test_a_program_of_iree_that_writes(
    tmp_path: Path, shared_home: Path, triage: Triage
) -> None:
    del shared_home
    folder = tmp_path / "victim"
    folder.mkdir()
    compiled_by_iree(WRITES, tmp_path, triage)
    assert not list(folder.iterdir())
    compiled_by_iree(WRITES, tmp_path, triage, "--unsealed")
    assert list(folder.iterdir()), "it is no attack"


@pytest.mark.real
@pytest.mark.core
def test_a_program_of_iree_that_reads(
    tmp_path: Path, shared_home: Path, triage: Triage
) -> None:
    del shared_home
    private = tmp_path / "victim" / "private"
    private.parent.mkdir()
    private.write_text("very secret\n")
    result, printed = compiled_by_iree(READS, tmp_path, triage)
    assert "very secret" not in printed
    assert result["status"] == "untestable"
    assert str(private) in str(result["reason"])
    result, _ = compiled_by_iree(READS, tmp_path, triage, "--unsealed")
    assert "reads:" not in str(result["reason"]), "it is no attack: it was not read"


KERNEL = """
import triton
import triton.language as tl
@triton.jit
def copy(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))
"""


@pytest.mark.real
@pytest.mark.core
def test_a_kernel_of_triton(
    tmp_path: Path, shared_home: Path, triage: Triage, attack: Callable[[], str]
) -> None:
    """Its file is a program, which runs when it is compiled."""
    del shared_home
    (tmp_path / "k.py").write_text(KERNEL + attack())
    recipe = (
        "compiler: triton\ninput: k.py\ntarget: {backend: cuda, chip: sm_90}\n"
        "kernel: copy\nsignature: {x: '*fp32', y: '*fp32'}\nconstexprs: {N: 64}\n"
    )
    assert passes(triage, tmp_path, recipe, "triton:3.2.0")


@pytest.mark.real
def test_a_script_of_jax(
    tmp_path: Path, shared_home: Path, triage: Triage, attack: Callable[[], str]
) -> None:
    del shared_home
    (tmp_path / "s.py").write_text(
        "import jax\n" + attack() + "\n@jax.jit\ndef f(x):\n    return x + 1\nf(1.0)\n"
    )
    recipe = "compiler: xla\ninput: s.py\ntarget: {backend: cpu}\n"
    assert passes(triage, tmp_path, recipe, "xla:0.10.2")
    assert not [
        process
        for process in psutil.Process().children(recursive=True)
        if process.name().startswith("python")
    ]
