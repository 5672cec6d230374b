"""How IREE is found, called, run and measured, and what its IR has in common over
releases.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mlir.printed_ir import Op, printed, program, read
from tests.programs import write_program
from triage.compilers.iree.adapter import Iree
from triage.compilers.iree.runner import IreeKernels, IreeRunner
from triage.model.case import Case, Input, InputKind, Target
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Revision, Toolchain

IREE = Iree()
CASE = Case(
    "r",
    "r",
    "",
    "iree",
    Path("r.yaml"),
    Input(Path("m.mlir"), InputKind.MLIR),
    Target("rocm", "gfx942"),
)


def toolchain(version: str | None, *flags: str) -> Toolchain:
    known = Capabilities(
        frozenset({"rocm", "cuda", "llvm-cpu"}),
        ("flow", "stream", "vm"),
        frozenset(flags),
    )
    return Toolchain(
        "iree",
        Revision(version or "path:x"),
        "id",
        Path("/tc"),
        Path("/tc/iree-compile"),
        known,
        version,
    )


OLD = toolchain("3.10.0", "iree-hip-target")
NEW = toolchain("3.12.0", "iree-rocm-target")
BOTH = toolchain("3.11.0", "iree-rocm-target", "iree-hip-target")


BACKEND = "--iree-hal-target-backends=rocm"
LOCAL = replace(CASE, target=Target("llvm-cpu", devices=2), phase="stream")
DEVICES = [f"--iree-hal-target-device=local[{number}]" for number in range(2)]


@pytest.mark.parametrize(
    ("case", "compiler", "options"),
    [
        (CASE, OLD, [BACKEND, "--iree-hip-target=gfx942"]),
        (CASE, NEW, [BACKEND, "--iree-rocm-target=gfx942"]),
        (CASE, BOTH, [BACKEND, "--iree-rocm-target=gfx942"]),
        (
            LOCAL,
            NEW,
            [
                *DEVICES,
                "--iree-hal-local-target-device-backends=llvm-cpu",
                "--compile-to=stream",
            ],
        ),
        (
            replace(CASE, target=Target("rocm", "gfx942", devices=1)),
            NEW,
            ["--iree-hal-target-device=hip[0]", "--iree-rocm-target=gfx942"],
        ),
    ],
)
def test_the_target_is_named_in_each_versions_spelling(
    case: Case, compiler: Toolchain, options: list[str]
) -> None:
    assert list(IREE.invocation(case, compiler).options) == options


@pytest.mark.parametrize(
    ("case", "version", "cause"),
    [
        (replace(CASE, target=Target("vulkan-spirv")), "3.12.0", Cause.TARGET),
        (replace(CASE, phase="hal"), "3.12.0", Cause.FLAG),
        (CASE, "9.9.9", Cause.FLAG),
    ],
)
def test_what_a_version_cannot_do_is_untestable_and_never_bad(
    case: Case, version: str, cause: Cause
) -> None:
    answer = IREE.invocation(case, toolchain(version))
    assert isinstance(answer, NoAnswer)
    assert answer.cause is cause


INNER = "iree/compiler/_mlir_libs/iree-compile"


@pytest.mark.parametrize(
    "place",
    [
        INNER,
        f"lib/python3.11/site-packages/{INNER}",
        "tools/iree-compile",
        "bin/iree-compile",
        "iree-compile",
    ],
)
def test_the_binary_is_found_in_every_layout(tmp_path: Path, place: str) -> None:
    program = write_program(tmp_path / place, "\x7fELF")
    assert IREE.locate(tmp_path) == program
    assert IREE.locate(program) == program


KERNELS = IreeKernels()


def test_the_kernels_of_an_extracted_program_and_how_each_is_measured_alone() -> None:
    kernel = 'util.func public @k_elf_{}(%arg0: i32) attributes {{iree.reflection = {{iree.benchmark = "dispatch"}}}} {{'
    text = "\n".join(
        [
            "hal.executable private @k {",
            "util.func private @k_elf_no(%arg0: i32) {",
            *map(kernel.format, "ab"),
        ]
    )
    assert KERNELS.kernels_in(text) == [
        ("k", "--benchmark_filter=^BM_k_elf_a/"),
        ("k-2", "--benchmark_filter=^BM_k_elf_b/"),
    ]
    assert KERNELS.kernels_in("module {}") == []


@pytest.mark.parametrize(
    ("stderr", "cause", "reason"),
    [
        (
            "UNAVAILABLE; no devices; creating driver for device 'hip'",
            Cause.TARGET,
            "hip",
        ),
        ("ERROR: flag 'device_allocator' not recognized", Cause.FLAG, "allocator"),
        ("FAILED_PRECONDITION; the result differs", None, ""),
    ],
)
def test_what_the_runtime_cannot_do_says_nothing_about_the_compiler(
    stderr: str, cause: Cause | None, reason: str
) -> None:
    answer = IreeRunner().startup_failure(stderr)
    assert (answer and answer.cause) == cause
    assert answer is None or reason in answer.reason


# Spellings of the IR that mean the same in two releases.
TENSOR = "tensor<8x16xf32>"
PART = "tensor<4x4xf32>"
BODY = (Op("arith.addf", ("f32", "f32"), ("f32",)), Op("linalg.yield", ("f32",)))


def part(*sizes: str) -> Op:
    return Op("tensor.extract_slice", (TENSOR, *sizes), (PART,))


def generic(name: str, **attributes: str) -> Op:
    return Op(name, (TENSOR, TENSOR), (TENSOR,), (BODY,), attributes)


def decided(choice: str) -> Op:
    return generic("linalg.generic", lowering_config=f"{{{choice}}}")


VOCABULARY = IREE.vocabulary


@pytest.mark.parametrize(
    ("old", "new", "are_equal"),
    [
        (part("index", "index"), part(), True),
        (generic("linalg.matmul"), generic("linalg.generic"), True),
        (
            decided("kind = #iree_gpu.mma_layout<WMMA_F32_16x16x16_F16>"),
            decided("kind = #iree_gpu.mma_layout<WMMAR3_F32_16x16x16_F16>"),
            True,
        ),
        (part(), Op("tensor.extract_slice", (TENSOR,), ("tensor<4x8xf32>",)), False),
        (decided("reduction = [0, 4]"), decided("reduction = [0, 8]"), False),
    ],
)
def test_spellings_of_one_thing_are_equal_and_nothing_else(
    old: Op, new: Op, *, are_equal: bool
) -> None:
    left, right = (read(printed(program(op)), VOCABULARY) for op in (old, new))
    is_same = left.whole.same_as(right.whole)
    assert (is_same and left.whole.same_operations(right.whole)) is are_equal
