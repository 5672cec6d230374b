"""Each form in which people paste a command line becomes a recipe with the flags of
that command line.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from triage.compilers.iree.command_line import IreeRecipes
from triage.compilers.iree.devices import target_flags
from triage.compilers.recipe_input import with_response_files
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart, new_recipe

PROGRAM = "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"
OPTIONS = "--iree-hal-target-backends=llvm-cpu\n--iree-llvmcpu-target-cpu=generic\n"
TARGET = '#hal.executable.target<"vmvx", "vmvx-bytecode-fb">'
FILES = {
    "m.mlir": PROGRAM,
    "model.txt": PROGRAM,
    "targets.mlir": f'module attributes {{hal.device.targets = [#hal.device.target<"local", [{TARGET}]>]}} {{\n{PROGRAM}}}\n',
    "opts.rsp": OPTIONS,
    "exec.mlir": '#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">\n',
    "hx.mlir": '#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">\n',
}
# Each form, and after `->` what a shell runs where it is something else.
COMMANDS = (
    (Path(__file__).parent / "pasted_commands.txt")
    .read_text()
    .strip()
    .split("\n====\n")
)
NOT_COMPILED = (
    "--mlir-print",
    "--mlir-disable",
    "--iree-hal-dump",
    "--iree-llvmcpu-embedded-linker-path",
)
KNOWN = frozenset(
    {
        "iree-hip-target",
        "iree-cuda-target",
        "iree-vulkan-target",
        "iree-llvmcpu-target-cpu",
    }
)
NORMALISED = {  # spellings of other versions
    "--iree-rocm-target=gfx942": "--iree-hip-target=gfx942",
    "--iree-rocm-target-chip=gfx942": "--iree-hip-target=gfx942",
    "--iree-hal-cuda-llvm-target-arch=sm_80": "--iree-cuda-target=sm_80",
    "--iree-hal-target-backends=vulkan": "--iree-hal-target-backends=vulkan-spirv",
}


def start_from(words: Sequence[str], source: Path | None = None) -> RecipeStart:
    """The recipe of a user's own command line."""
    call = IreeRecipes().call_in(words)
    assert call is not None
    return IreeRecipes().from_call(with_response_files(call), None, source)


def flags_of(shell: str) -> set[str]:
    """The flags of a shell line that affect the compiled code, in today's spelling."""
    shell = shell.replace(
        "@opts.rsp",
        "--iree-hal-target-backends=llvm-cpu --iree-llvmcpu-target-cpu=generic",
    )
    for name in ("iree-hal-target-backends", "iree-llvmcpu-target-cpu"):
        shell = shell.replace(f"--{name} ", f"--{name}=")
    words = [
        f"--{word.lstrip('-')}"
        for word in shlex.split(shell)
        if word.startswith("-") and word not in ("-", "-o")
    ]
    return {
        NORMALISED.get(word, word)
        for word in words
        if not word.startswith(NOT_COMPILED)
    }


@pytest.mark.parametrize(
    "form", COMMANDS, ids=lambda form: form[:60].replace("\n", " ")
)
def test_the_recipe_has_the_flags_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    pasted, _, shell = form.partition("\n->\n")
    start = start_from([pasted])
    assert start.target is not None
    assert new_recipe("pasted", "m.mlir", start)
    target = target_flags(start.target, KNOWN, start.flags)
    assert isinstance(target, list)
    expected = flags_of(shell or pasted)
    if not any(
        "target-backends" in flag or "target-device" in flag or "compile-from" in flag
        for flag in expected
    ):
        assert start.notes
        expected.add(f"--iree-hal-target-backends={start.target.backend}")
    phase = [f"--compile-to={start.phase}"] if start.phase else []
    assert {*target, *start.flags, *phase} == expected


@pytest.mark.parametrize(
    "words",
    [
        ["iree-compile", "-"],
        ["iree-compile", "/x/tools/../_mlir_libs/iree-compile", "-"],
    ],
)
def test_an_input_is_named_for_a_command_that_reads_standard_input(
    words: list[str],
) -> None:
    start = start_from([*words, "--iree-hal-target-backends=vmvx"], Path("saved.mlir"))
    assert (start.input, list(start.flags)) == (Path("saved.mlir"), [])


def test_devices_are_counted_and_outputs_are_left_out() -> None:
    line = (
        "A=1 ../build/tools/iree-compile --iree-hal-target-device=hip[0] --iree-hal-target-device=hip[1] a/b.mlirbc "
        "--iree-hip-target gfx942 -iree-opt-level=O3 --iree-hal-dump-executable-files-to dump -o=/dev/null"
    )
    start = start_from(shlex.split(line))
    assert (start.input, start.target) == (
        Path("a/b.mlirbc"),
        Target("rocm", "gfx942", 2),
    )
    assert list(start.flags) == ["--iree-opt-level=O3"]
    assert list(start.left_out) == [
        "--iree-hal-dump-executable-files-to=dump",
        "-o /dev/null",
    ]


@pytest.mark.parametrize(
    "kind", ["missing", "device", "pipe", "folder", "large", "itself", "many", "quote"]
)
def test_only_small_regular_response_files_are_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "flags.rsp"
    match kind:
        case "device":
            file = Path("/dev/zero")
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "large":
            file.write_text("--x " * (1 << 19))
        case "itself":
            file.write_text(f"@{file}")
        case "many":
            file.write_text(f"@{file} " * 1000)
        case "quote":
            file.write_text("--x='")
    with pytest.raises(BadInput):
        start_from(["iree-compile", "m.mlir", f"@{file}"])
