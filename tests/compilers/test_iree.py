from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.programs import write_program
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
