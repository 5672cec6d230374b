"""How IREE's IR is asked for, and that its renamings between releases mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.compilers.base import Invocation
from triage.compilers.iree.passes import IreeIr
from triage.mlir.ir_reader import IrReader, PrintedModule
from triage.model.revision import Capabilities, Revision, Toolchain

IR = IreeIr()
PLAIN = Invocation(("--iree-hal-target-backends=rocm", "--compile-to=vm"), ("--quiet",))


def toolchain(**known: object) -> Toolchain:
    return Toolchain("iree", Revision("3.3.0"), "i", Path(), Path("iree-compile"), Capabilities(**known))  # type: ignore[arg-type]


def read(*lines: str) -> PrintedModule:
    found: list[PrintedModule] = []
    reader = IrReader(IR.words, found.append)
    for line in ('"func.func"() <{sym_name = "f"}> ({', *(f"  {line}" for line in lines), "}) : () -> ()"):
        reader.line(line)
    return found[0]


def test_a_phase_replaces_the_one_of_the_case_and_the_rest_stays() -> None:
    made = IR.up_to(PLAIN, "flow")
    assert made.options == ("--iree-hal-target-backends=rocm", "--compile-to=flow")
    assert made.printing[0] == "--quiet"
    assert "--mlir-print-op-generic" in made.printing


def test_passes_are_printed_in_one_thread_and_options_stay() -> None:
    made = IR.after_passes(PLAIN)
    assert made.options == PLAIN.options
    assert {"--mlir-print-ir-after-all", "--mlir-print-ir-after-change", "--mlir-disable-threading"} <= set(made.printing)
    one = IR.after_passes(PLAIN, "iree-codegen-gpu-pad-operands", generic=False)
    assert "--mlir-print-ir-after=iree-codegen-gpu-pad-operands" in one.printing
    assert "--mlir-print-op-generic" not in one.printing


def test_phases_end_with_the_one_that_is_meant() -> None:
    known = toolchain(phases=("input", "flow", "stream", "executable-targets", "vm", "end"))
    assert IR.phases(known, "executable-targets") == ("flow", "stream", "executable-targets")
    assert IR.phases(known, None) == ("flow", "stream", "executable-targets", "vm")
    assert IR.phases(known, "unheard-of") == IR.phases(known, None)


def test_a_compiler_without_the_options_cannot_print() -> None:
    assert not IR.is_printed_by(toolchain(flags=frozenset({"mlir-print-ir-after-all"})))
    assert IR.is_printed_by(toolchain(flags=frozenset({"mlir-print-ir-after-all", "mlir-print-ir-after-change"})))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            '%1 = "flow.dispatch.tensor.load"(%0) : (!flow.dispatch.tensor<readonly:tensor<4xf32>>) -> tensor<4xf32>',
            '%1 = "iree_tensor_ext.dispatch.tensor.load"(%0) : '
            "(!iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>) -> tensor<4xf32>",
        ),
        (
            '%1 = "memref.cast"(%0) : (memref<4xf32, #hal.descriptor_type<storage_buffer>>) -> memref<4xf32>',
            '%1 = "memref.cast"(%0) : (memref<4xf32, #gpu.address_space<global>>) -> memref<4xf32>',
        ),
        (
            '%1 = "tensor.pack"(%0) : (tensor<4xf32>) -> tensor<2x2xf32>',
            '%1 = "linalg.pack"(%0) : (tensor<4xf32>) -> tensor<2x2xf32>',
        ),
    ],
)
def test_renamed_operations_and_types_are_the_same(old: str, new: str) -> None:
    assert read(old).functions == read(new).functions


@pytest.mark.parametrize(
    "line",
    [
        '%1 = "arith.addi"(%0, %0) : (index, index) -> index',
        '%1 = "arith.constant"() <{value = 1.0 : f32}> : () -> f32',
        '%1:2 = "affine.delinearize_index"(%0) : (index) -> (index, index)',
        '%1 = "tensor.dim"(%t, %0) : (tensor<?xf32>, index) -> index',
    ],
)
def test_sizes_and_offsets_mean_nothing(line: str) -> None:
    assert read(line).functions == read().functions


@pytest.mark.parametrize(
    "line",
    [
        '%1 = "arith.addf"(%0, %0) : (f32, f32) -> f32',
        '%1 = "arith.addi"(%0, %0) : (i8, i8) -> i8',
        '%1 = "arith.addi"(%0, %0) : (vector<4xi32>, vector<4xi32>) -> vector<4xi32>',
        '"gpu.barrier"() : () -> ()',
    ],
)
def test_what_is_computed_means_something(line: str) -> None:
    assert read(line).functions != read().functions


def test_the_pipeline_has_one_spelling() -> None:
    def chosen(info: str) -> frozenset[tuple[str, str]]:
        return read(f'"func.call"() {{translation_info = #iree_codegen.translation_info<{info}>}} : () -> ()').whole.choices

    old, new = (
        chosen("LLVMGPUVectorize workgroup_size = [128, 1, 1]"),
        chosen("pipeline = LLVMGPUVectorize workgroup_size = [128, 1, 1]"),
    )
    assert old == new == {("translation_info.pipeline", "Vectorize"), ("translation_info.workgroup_size", "[128, 1, 1]")}
    attribute = chosen("pipeline = #iree_gpu.pipeline<Vectorize> workgroup_size = [128, 1, 1]")
    assert attribute == new


def test_nested_tile_sizes_are_one_choice() -> None:
    line = (
        '"linalg.fill"() {lowering_config = #iree_gpu.lowering_config<{basis = [[1, 64], [0, 1]], '
        "mma_kind = #iree_gpu.mma_layout<MFMA_F32_16x16x4_F32>, reduction = [0, 4], shape = [?, 2]}>, other = [9]} : () -> ()"
    )
    assert read(line).whole.choices == {
        ("lowering_config.basis", "[[1, 64], [0, 1]]"),
        ("lowering_config.mma_kind", "#iree_gpu.mma_layout<MFMA_F32_16x16x4_F32>"),
        ("lowering_config.reduction", "[0, 4]"),
        ("lowering_config.shape", "[?, 2]"),
    }


def test_workgroup_memory_is_counted() -> None:
    line = '%0 = "memref.alloc"() : () -> memref<64x132xf16, #gpu.address_space<workgroup>>'
    assert read(line).functions["f"].shared_bytes == 64 * 132 * 2
