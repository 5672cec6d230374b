"""What a program asks for, read from its IR, against what the compilers themselves say of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from triage.compilers.iree import Iree
from triage.compilers.iree.passes import footprint
from triage.toolchains.registry import ToolchainRegistry

KERNELS = """
"builtin.module"() ({
  "hal.executable"() <{sym_name = "a"}> ({
    "builtin.module"() ({
      "llvm.mlir.global"() <{addr_space = 3 : i32, global_type = !llvm.array<64 x array<130 x f32>>, sym_name = "x"}> ({
      "llvm.mlir.global"() <{addr_space = 3 : i32, global_type = !llvm.array<100 x i8>, sym_name = "y"}> ({
      "llvm.mlir.global"() <{addr_space = 4 : i32, global_type = !llvm.array<900 x i8>, sym_name = "z"}> ({
    "builtin.module"() ({
        "spirv.GlobalVariable"() <{sym_name = "w", type = !spirv.ptr<!spirv.struct<(!spirv.array<8 x vector<4xf32>>)>, Workgroup>}> : () -> ()
  %3 = "stream.cmd.execute"(%1) ({
    "stream.cmd.dispatch"(%0) <{entry_points = [@a]}> : (index) -> ()
    "stream.cmd.dispatch"(%0) <{entry_points = [@b]}> : (index) -> ()
""".splitlines()  # noqa: E501
DISPATCHING = {"stream.cmd.dispatch"}


def test_dispatches_and_the_largest_kernel_s_shared_memory() -> None:
    assert footprint(KERNELS, DISPATCHING, gpu=True) == {"dispatches": 2, "shared_bytes": 64 * 130 * 4 + 100}
    assert footprint(KERNELS, DISPATCHING, gpu=False) == {"dispatches": 2}


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.0.0", "3.3.0", "3.13.0"])
@pytest.mark.parametrize("target", ["cuda --iree-cuda-target=sm_86", "llvm-cpu --iree-llvmcpu-target-cpu=generic"])
def test_the_compiler_s_own_statistics_agree(shared_home: Path, tmp_path: Path, version: str, target: str) -> None:
    registry = ToolchainRegistry(shared_home, {"iree": Iree()})
    toolchain = registry.obtain(registry.resolve(version, "iree"))
    backend, chip = target.split()
    source, printed = tmp_path / "two.mlir", tmp_path / "printed.mlir"
    source.write_text(TWO)
    command = [toolchain.program, source, f"--iree-hal-target-backends={backend}", chip]
    more = ["--mlir-print-op-generic", "--compile-to=executable-targets", "-o", printed]
    statistics = ["--iree-scheduling-dump-statistics-format=json", "--iree-scheduling-dump-statistics-file="]
    done = subprocess.run([*command, *more, *statistics], check=True, capture_output=True, text=True)
    told = re.search(r'"dispatch-count": (\d+)', done.stderr)
    assert told
    found = Iree().ir().footprint(printed, backend)
    assert found["dispatches"] == int(told[1]) > 0
    memory = [int(size) for size in re.findall(r"workgroup_local_memory = (\d+)", printed.read_text())]
    assert found.get("shared_bytes", 0) == max(memory, default=0)


A, B, C = "tensor<128x256xf32>", "tensor<256x512xf32>", "tensor<512x64xf32>"
R, S = "tensor<128x512xf32>", "tensor<128x64xf32>"
TWO = f"""
func.func @f(%a: {A}, %b: {B}, %c: {C}) -> {S} {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {R}
  %i = linalg.fill ins(%z : f32) outs(%e : {R}) -> {R}
  %r = linalg.matmul ins(%a, %b : {A}, {B}) outs(%i : {R}) -> {R}
  %f = tensor.empty() : {S}
  %j = linalg.fill ins(%z : f32) outs(%f : {S}) -> {S}
  %s = linalg.matmul ins(%r, %c : {R}, {C}) outs(%j : {S}) -> {S}
  return %s : {S}
}}
"""
