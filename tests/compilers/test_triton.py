"""The Triton adapter's translations, without a Triton."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from triage.compilers.base import KernelSpec
from triage.compilers.triton.adapter import Triton
from triage.model.case import Case, Input, InputKind, Target
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Revision, Toolchain
from triage.processes.sealing import Seal

TRITON = Triton()
KERNEL = KernelSpec(
    None,
    {"x": "*fp16"},
    {"BLOCK": 64, "fast": True},
    {"x": {"divisibility": 16}},
    {"num_warps": 8},
)
CASE = Case(
    "r",
    "r",
    "",
    "triton",
    Path("r.yaml"),
    Input(Path("k.py"), InputKind.OTHER),
    Target("cuda", "sm_90"),
    spec=KERNEL,
)


def wheel(
    root: Path, version: str = "3.2.0", tag: str = "cp311-cp311-manylinux_2_17_x86_64"
) -> Path:
    """The parts of an unpacked wheel that the adapter looks at."""
    for name in (
        "_C/libtriton.so",
        "__init__.py",
        "compiler/compiler.py",
        "backends/amd/compiler.py",
        "backends/nvidia/bin/ptxas",
    ):
        (root / "triton" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "triton" / name).write_text(
            f"__version__ = '{version.partition('+')[0]}'\n"
        )
    metadata = root / f"triton-{version}.dist-info"
    metadata.mkdir()
    (metadata / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    return root / "triton/_C/libtriton.so"


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    program = wheel(tmp_path)
    told = TRITON.describe(program, Seal(()))
    return Toolchain(
        "triton",
        Revision("3.2.0"),
        "id",
        tmp_path,
        program,
        told.capabilities,
        told.version,
    )


def test_a_wheel_for_a_python_that_is_not_here_is_untestable(tmp_path: Path) -> None:
    program = wheel(tmp_path, tag="cp399-cp399-any")
    known = TRITON.describe(program, Seal(())).capabilities
    answer = TRITON.invocation(
        CASE, Toolchain("triton", Revision("x"), "id", tmp_path, program, known)
    )
    assert isinstance(answer, NoAnswer)
    assert (answer.cause, answer.reason) == (
        Cause.TOOLCHAIN,
        "x needs Python 3.99, and none is installed here",
    )


def test_the_worker_keeps_the_variables_that_the_recipe_names(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    case = replace(
        CASE, env=(("MLIR_ENABLE_DUMP", "1"), ("TRITON_ALWAYS_COMPILE", None))
    )
    invocation = TRITON.invocation(case, toolchain)
    if isinstance(invocation, NoAnswer):
        pytest.fail(invocation.reason)
    code = (
        "import os; from triage.compilers.triton.worker import prepare;"
        "prepare({'backend': 'cuda', 'arch': '90'});"
        "print(*sorted(os.environ.keys() & OWN))"
    )
    named = ["MLIR_ENABLE_DUMP", "TRITON_ALWAYS_COMPILE"]
    others = ["TRITON_DEBUG", "MLIR_X", "LLVM_X", "AMDGCN_X", "NVPTX_X", "DISABLE_X"]
    others += ["ALLOW_X", "USE_X", "PROTON_X", "ENABLE_X", "OPTIMIZE_X"]
    own = dict.fromkeys([*named, *others], "1")
    done = subprocess.run(
        [sys.executable, "-c", code.replace("OWN", repr(set(own)))],
        env={**os.environ, **invocation.env, **own},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == named, done.stderr
