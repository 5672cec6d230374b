from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from triage.compilers.iree.adapter import Iree
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


@pytest.mark.parametrize(
    ("compiler", "flag"), [(OLD, "hip"), (NEW, "rocm"), (BOTH, "rocm")]
)
def test_the_chip_is_named_in_each_versions_spelling(
    compiler: Toolchain, flag: str
) -> None:
    options = IREE.invocation(CASE, compiler).options
    assert options == (
        "--iree-hal-target-backends=rocm",
        f"--iree-{flag}-target=gfx942",
    )


def test_devices_are_declared_by_number() -> None:
    local = replace(CASE, target=Target("llvm-cpu", devices=2), phase="stream")
    assert IREE.invocation(local, NEW).options == (
        "--iree-hal-target-device=local[0]",
        "--iree-hal-target-device=local[1]",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--compile-to=stream",
    )
    hip = replace(CASE, target=Target("rocm", "gfx942", devices=1))
    assert IREE.invocation(hip, NEW).options == (
        "--iree-hal-target-device=hip[0]",
        "--iree-rocm-target=gfx942",
    )


def test_what_a_version_cannot_do_is_untestable_and_never_bad() -> None:
    answer = IREE.invocation(replace(CASE, target=Target("vulkan-spirv")), NEW)
    assert isinstance(answer, NoAnswer)
    assert answer.cause is Cause.TARGET
    assert "vulkan-spirv" in answer.reason
    answer = IREE.invocation(replace(CASE, phase="hal"), NEW)
    assert isinstance(answer, NoAnswer)
    answer = IREE.invocation(CASE, toolchain("9.9.9"))
    assert isinstance(answer, NoAnswer)
    assert answer.cause is Cause.FLAG


def elf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    return path


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
    program = elf(tmp_path / place)
    assert IREE.locate(tmp_path) == program
    assert IREE.locate(program) == program
