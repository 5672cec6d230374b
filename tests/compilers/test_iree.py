from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from triage.compilers.iree import Iree
from triage.compilers.iree.installation import listed_phases
from triage.model.case import Case, Flag, Input, InputKind, Target
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Capabilities, Revision, Toolchain

IREE = Iree()
CASE = Case("r", "r", "", "iree", Path("r.yaml"), Input(Path("m.mlir"), InputKind.MLIR), Target("rocm", "gfx942"))


def toolchain(version: str | None, *flags: str) -> Toolchain:
    known = Capabilities(frozenset({"rocm", "cuda", "llvm-cpu"}), ("flow", "stream", "vm"), frozenset(flags))
    return Toolchain("iree", Revision(version or "path:x"), "id", Path("/tc"), Path("/tc/iree-compile"), known, version)


OLD = toolchain("3.10.0", "iree-hip-target")
NEW = toolchain("3.12.0", "iree-rocm-target")
BOTH = toolchain("3.11.0", "iree-rocm-target", "iree-hip-target")


@pytest.mark.parametrize(("compiler", "flag"), [(OLD, "hip"), (NEW, "rocm"), (BOTH, "rocm")])
def test_the_chip_is_named_in_each_versions_spelling(compiler: Toolchain, flag: str) -> None:
    options = IREE.invocation(CASE, compiler).options
    assert options == ("--iree-hal-target-backends=rocm", f"--iree-{flag}-target=gfx942")


def test_devices_are_declared_by_number() -> None:
    local = replace(CASE, target=Target("llvm-cpu", devices=2), phase="stream")
    assert IREE.invocation(local, NEW).options == (
        "--iree-hal-target-device=local[0]",
        "--iree-hal-target-device=local[1]",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--compile-to=stream",
    )
    hip = replace(CASE, target=Target("rocm", "gfx942", devices=1))
    assert IREE.invocation(hip, NEW).options == ("--iree-hal-target-device=hip[0]", "--iree-rocm-target=gfx942")


def test_what_the_recipe_says_itself_is_not_said_again() -> None:
    own = replace(CASE, flags=(Flag("--iree-hal-target-device=a=hip[0]"), Flag("--iree-rocm-target=gfx1100")))
    assert IREE.invocation(own, NEW).options == ("--iree-hal-target-device=a=hip[0]", "--iree-rocm-target=gfx1100")
    loud = replace(CASE, flags=(Flag("--mlir-print-op-on-diagnostic=true"),))
    assert IREE.invocation(loud, NEW).printing == ()


def test_flags_follow_their_versions() -> None:
    case = replace(CASE, flags=(Flag("--a"), Flag("--b", since="3.11.0"), Flag("--c", until="3.11.0")))
    assert IREE.invocation(case, OLD).options[2:] == ("--a", "--c")
    assert IREE.invocation(case, NEW).options[2:] == ("--a", "--b")


def test_what_a_version_cannot_do_is_untestable_and_never_bad() -> None:
    answer = IREE.invocation(replace(CASE, target=Target("vulkan-spirv")), NEW)
    assert isinstance(answer, Untestable)
    assert answer.cause is Cause.TARGET
    assert "vulkan-spirv" in answer.reason
    answer = IREE.invocation(replace(CASE, phase="hal"), NEW)
    assert isinstance(answer, Untestable)
    answer = IREE.invocation(CASE, toolchain("9.9.9"))
    assert isinstance(answer, Untestable)
    assert answer.cause is Cause.FLAG


def test_pass_reporting_changes_only_what_is_printed() -> None:
    first = IREE.invocation(CASE, NEW)
    second = IREE.with_pass_reporting(first)
    assert second.options == first.options
    assert "--mlir-print-ir-after-failure" in second.printing
    third = IREE.on_one_thread(first)
    assert third.options == first.options
    assert "--mlir-disable-threading" in third.printing


def elf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    return path


INNER = "iree/compiler/_mlir_libs/iree-compile"


@pytest.mark.parametrize(
    "place", [INNER, f"lib/python3.11/site-packages/{INNER}", "tools/iree-compile", "bin/iree-compile", "iree-compile"]
)
def test_the_binary_is_found_in_every_layout(tmp_path: Path, place: str) -> None:
    program = elf(tmp_path / place)
    assert IREE.locate(tmp_path) == program
    assert IREE.locate(program) == program


def test_an_entry_script_leads_to_the_native_binary(tmp_path: Path) -> None:
    script = tmp_path / "bin/iree-compile"
    script.parent.mkdir()
    script.write_text("#!/usr/bin/env python3\n")
    assert IREE.locate(tmp_path) is None
    program = elf(tmp_path / "lib/python3.12/site-packages" / INNER)
    assert IREE.locate(script) == program
    assert IREE.locate(tmp_path) == program


def test_a_library_beside_the_binary_is_part_of_the_compiler(tmp_path: Path) -> None:
    program = elf(tmp_path / "tools/iree-compile")
    library = elf(tmp_path / "lib/libIREECompiler.so")
    assert IREE.identity_files(program) == (program, library)


def test_a_program_that_is_no_iree_compiler(tmp_path: Path) -> None:
    other = tmp_path / "iree-compile"
    other.symlink_to("/bin/echo")
    with pytest.raises(EnvironmentFailure, match="does not answer like an IREE compiler"):
        IREE.describe(other)
    with pytest.raises(EnvironmentFailure, match="does not run"):
        IREE.describe(elf(tmp_path / "broken"))


def test_phases_are_read_from_the_help_text() -> None:
    text = """
  --compile-to=<value>    - Compilation phase to run up until before emitting output.
    =start                -   Entry point.
    =executable-targets   -   Translated.
  --compute-dead          - Compute dead symbols
    =other                - Of another option
"""
    assert listed_phases(text) == ("start", "executable-targets")
