"""The script `repro.py` of a kernel compiles it with every release, without a GPU."""

from __future__ import annotations

import subprocess
from os import environ
from pathlib import Path

import pytest

from triage.compilers.base import KernelSpec
from triage.compilers.interpreters import uv_program
from triage.compilers.repro_script import PythonFunction, StandaloneCompile
from triage.compilers.triton.standalone import script
from triage.model.case import Case, Input, InputKind, Target

KERNEL = """import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + 1.0, mask=inside)
"""
RELEASES = (
    *("3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.3.1", "3.4.0"),
    *("3.5.0", "3.5.1", "3.6.0", "3.7.0", "3.8.0", "3.9.0"),
)


def script_of(version: str, folder: Path, failure_class: str = "unknown") -> str:
    hints = {"x_ptr": {"divisibility": 16}, "y_ptr": {"divisibility": 16}}
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    kernel = KernelSpec("add_one", signature, {"BLOCK": 128}, hints, {"num_warps": 4})
    source = Input(folder / "input.py", InputKind.OTHER)
    case = Case(
        "k",
        "k",
        "",
        "triton",
        folder / "k.yaml",
        source,
        Target("cuda", "sm_80"),
        spec=kernel,
    )
    task = StandaloneCompile(
        case=case,
        source="input.py",
        program="triton",
        options=(),
        release=version,
        version=version,
        requirement=f"triton=={version}",
        failure_class=failure_class,
        function=PythonFunction("add_one", ("x_ptr", "y_ptr", "n", "BLOCK")),
    )
    return script(task)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_the_command_compiles_the_kernel(version: str, tmp_path: Path) -> None:
    (tmp_path / "input.py").write_text(KERNEL)
    text = script_of(version, tmp_path, "shared-memory-overflow")
    (tmp_path / "repro.py").write_text(text)
    words = [uv_program(), "run", "--no-project", "--python", "3.11"]
    for package in (f"triton=={version}", "setuptools"):
        words += ["--with", package]
    words.append("repro.py")
    environment = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    inherited = {
        name: value
        for name, value in environ.items()
        if name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    cache = {
        "UV_CACHE_DIR": environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
    }
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**inherited, **cache, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
