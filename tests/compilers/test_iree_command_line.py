"""Command lines of issues, read as recipes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from triage.compilers.iree.command_line import read_command
from triage.model.case import Target
from triage.recipes.family import RecipeStart


def start(path: str, target: Target, flags: tuple[str, ...], phase: str | None, left_out: tuple[str, ...]) -> RecipeStart:
    return RecipeStart("iree", Path(path), target, flags, phase, left_out=left_out)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "iree-compile m.mlir --iree-hal-target-backends=rocm --iree-hip-target=gfx942 -o m.vmfb",
            start("m.mlir", Target("rocm", "gfx942"), (), None, ("-o m.vmfb",)),
        ),
        (
            "A=1 ../build/tools/iree-compile --iree-hal-target-device=hip[0] --iree-hal-target-device=hip[1] a/b.mlirbc "
            "--iree-hip-target gfx942 -iree-opt-level=O3 --iree-hal-dump-executable-files-to dump -o=/dev/null",
            start(
                "a/b.mlirbc",
                Target("rocm", "gfx942", 2),
                ("--iree-opt-level=O3",),
                None,
                ("--iree-hal-dump-executable-files-to=dump", "-o /dev/null"),
            ),
        ),
        (  # a device without a number stays a flag
            "iree-compile --iree-hal-target-device=hip --iree-rocm-target=gfx950 --compile-to=stream m.mlir",
            start("m.mlir", Target("rocm", "gfx950"), ("--iree-hal-target-device=hip",), "stream", ()),
        ),
        (
            "--iree-hal-target-device=local[0] --iree-hal-local-target-device-backends=llvm-cpu "
            "--iree-llvmcpu-target-cpu=host m.onnx --mlir-print-ir-after-all",
            start("m.onnx", Target("llvm-cpu", "host", 1), (), None, ("--mlir-print-ir-after-all",)),
        ),
        (  # named devices have no numbers
            "iree-compile --iree-hal-target-device=a=hip[0] --iree-hal-target-device=b=hip[1] --iree-hip-target=gfx942 m.mlir",
            start(
                "m.mlir",
                Target("rocm", "gfx942"),
                ("--iree-hal-target-device=a=hip[0]", "--iree-hal-target-device=b=hip[1]"),
                None,
                (),
            ),
        ),
        (  # a switch before the input has no value
            "iree-compile --iree-hal-target-backends=cuda --iree-cuda-target=sm_90 --iree-opt-data-tiling m.mlir",
            start("m.mlir", Target("cuda", "sm_90"), ("--iree-opt-data-tiling",), None, ()),
        ),
    ],
)
def test_what_a_command_line_compiles(line: str, expected: RecipeStart) -> None:
    found = read_command(shlex.split(line))
    assert replace(found, notes=(), env={}) == expected
