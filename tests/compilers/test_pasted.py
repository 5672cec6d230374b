"""Command lines as issues have them, read as recipes."""

from __future__ import annotations

import shlex

import pytest

from triage.compilers.iree import Pasted, read_pasted
from triage.model.case import Target
from triage.model.errors import BadInput


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (
            "iree-compile m.mlir --iree-hal-target-backends=rocm --iree-hip-target=gfx942 -o m.vmfb",
            Pasted("m.mlir", Target("rocm", "gfx942"), (), None, ("-o m.vmfb",)),
        ),
        (
            "A=1 ../build/tools/iree-compile --iree-hal-target-device=hip[0] --iree-hal-target-device=hip[1] a/b.mlirbc "
            "--iree-hip-target gfx942 -iree-opt-level=O3 --iree-hal-dump-executable-files-to dump -o=/dev/null",
            Pasted(
                "a/b.mlirbc",
                Target("rocm", "gfx942", 2),
                ("--iree-opt-level=O3",),
                None,
                ("--iree-hal-dump-executable-files-to=dump", "-o /dev/null"),
            ),
        ),
        (  # a device without a number stays as it is written
            "iree-compile --iree-hal-target-device=hip --iree-rocm-target=gfx950 --compile-to=stream m.mlir",
            Pasted("m.mlir", Target("rocm", "gfx950"), ("--iree-hal-target-device=hip",), "stream", ()),
        ),
        (
            "--iree-hal-target-device=local[0] --iree-hal-local-target-device-backends=llvm-cpu "
            "--iree-llvmcpu-target-cpu=host m.onnx --mlir-print-ir-after-all",
            Pasted("m.onnx", Target("llvm-cpu", "host", 1), (), None, ("--mlir-print-ir-after-all",)),
        ),
        (  # named devices are nobody's number
            "iree-compile --iree-hal-target-device=a=hip[0] --iree-hal-target-device=b=hip[1] --iree-hip-target=gfx942 m.mlir",
            Pasted(
                "m.mlir",
                Target("rocm", "gfx942"),
                ("--iree-hal-target-device=a=hip[0]", "--iree-hal-target-device=b=hip[1]"),
                None,
                (),
            ),
        ),
        (  # a switch before the input is no option with a value
            "iree-compile --iree-hal-target-backends=cuda --iree-cuda-target=sm_90 --iree-opt-data-tiling m.mlir",
            Pasted("m.mlir", Target("cuda", "sm_90"), ("--iree-opt-data-tiling",), None, ()),
        ),
    ],
)
def test_what_a_command_line_compiles(line: str, read: Pasted) -> None:
    assert read_pasted(shlex.split(line)) == read


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("clang m.mlir", "one of clang"),
        ("iree-compile --iree-hal-target-backends=rocm", "this has none"),
        ("iree-compile a.mlir b.mlir --iree-hal-target-backends=rocm", "this has a.mlir and b.mlir"),
        ("iree-compile --iree-hal-target-backends=rocm -", "save what the compiler was given"),
        ("iree-compile m.mlir", "--backend"),
        ("", "this has none"),
    ],
)
def test_what_cannot_be_read_is_told(line: str, said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("(", r"\(")):
        read_pasted(shlex.split(line))


def test_what_the_line_does_not_tell_is_taken_from_beside_it() -> None:
    assert read_pasted(["iree-compile", "m.mlir"], backend="vmvx").target == Target("vmvx")
