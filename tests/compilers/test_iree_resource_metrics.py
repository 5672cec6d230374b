"""What a program asks for, read from its IR, against what the compilers themselves say
of it.
"""

from __future__ import annotations

import pytest

from triage.compilers.iree.passes import resource_metrics

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
""".splitlines()
DISPATCHING = {"stream.cmd.dispatch"}


def test_dispatches_and_the_largest_kernel_s_shared_memory() -> None:
    assert resource_metrics(KERNELS, DISPATCHING, gpu=True) == {
        "dispatches": 2,
        "shared_bytes": 64 * 130 * 4 + 100,
    }
    assert resource_metrics(KERNELS, DISPATCHING, gpu=False) == {"dispatches": 2}


@pytest.mark.parametrize("at", [4, 5, 6])
def test_a_type_of_unknown_size_leaves_out_shared_memory(at: int) -> None:
    """Also where types of known size come before or after it."""
    opaque = '"llvm.mlir.global"() <{addr_space = 3 : i32, global_type = !llvm.ptr, sym_name = "p"}> ({'
    lines = [*KERNELS[:at], opaque, *KERNELS[at:]]
    assert resource_metrics(lines, DISPATCHING, gpu=True) == {"dispatches": 2}
