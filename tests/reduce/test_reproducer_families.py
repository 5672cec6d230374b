"""Reproducers of kernels and commands: the recipe reads back unchanged, the script
works without triage.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest

from tests.reduce.made import CASE, reproducer
from triage.compilers.base import KernelSpec
from triage.compilers.repro_script import PythonFunction, StandaloneCompile
from triage.model.case import Target
from triage.reduce.reproducer import Reproducer
from triage.report.reproducer import reproducer_files

KERNEL = """import triton
import triton.language as tl


@triton.jit
def k(x_ptr, n, step, B: tl.constexpr, D: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B) * step, tl.zeros((B,), D))
"""
HOW = KernelSpec(
    "k",
    {"x_ptr": "*fp16", "n": "i32", "step": "i32"},
    {"B": 128, "D": "tl.float32"},
    {"x_ptr": {"divisibility": 16, "pointer_range": 32}},
    {"num_warps": 2},
)


def of_kernel(version: str, backend: str) -> Reproducer:
    made = reproducer()
    tried = tuple(
        replace(probe, version=version) if probe is made.bad else probe
        for probe in made.reduction.probes
    )
    target = Target("cuda", "sm_90") if backend == "cuda" else Target("hip", "gfx942")
    case = replace(
        CASE, compiler="triton", spec=HOW, target=target, flags=(), phase=None
    )
    compiled = StandaloneCompile(
        case=case,
        source="input.py",
        program="triton",
        options=(),
        release=version,
        version=version,
        requirement=f"triton=={version}",
        failure_class="assertion",
        function=PythonFunction("k", ("x_ptr", "n", "step", "B", "D")),
    )
    reduction = replace(made.reduction, small=case, probes=tried, program=KERNEL)
    return replace(
        made,
        reduction=reduction,
        bad=tried[2],
        compile=compiled,
        file="input.py",
        files={"input.py": KERNEL.encode()},
    )


@pytest.mark.parametrize("version", ["3.0.0", "3.2.0", "3.9.0"])
@pytest.mark.parametrize("backend", ["cuda", "hip"])
def test_a_kernels_script_has_the_calls_of_its_release(
    version: str, backend: str
) -> None:
    files = reproducer_files(of_kernel(version=version, backend=backend))
    script = str(files["repro.py"])
    tree = ast.parse(script)
    called = {
        ast.unparse(one.func): one
        for one in ast.walk(tree)
        if isinstance(one, ast.Call)
    }
    given: dict[str, Any] = {
        one.arg or "": one.value
        for one in (called.get("ASTSource") or called["triton.compile"]).keywords
    }
    described = {"3.2.0": "known", "3.0.0": "AttrsDescriptor(set([0]), set())"}
    assert "GPUTarget" in called
    if version >= "3.3":
        assert ast.literal_eval(given["attrs"]) == {
            (0,): [["tt.divisibility", 16], ["tt.pointer_range", 32]]
        }
        assert ast.literal_eval(given["signature"])["B"] == "constexpr"
        assert "constexprs" in given
    else:
        assert ast.literal_eval(given["signature"])["n"] == "i32"
        assert described.get(version, "") in ast.unparse(given["attrs"])
    assert ("make_hsaco" in script) is (backend == "hip" and version < "3.5")
    assert "iree-compile" not in "".join(map(str, files.values()))
    assert "MLIR" not in str(files["README.md"])
    assert "```py\nimport triton\n" in str(files["README.md"])
