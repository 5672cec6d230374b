"""Each form in which people paste a command line becomes a recipe with the flags of
that command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from triage.compilers.iree.command_line import IreeRecipes
from triage.compilers.iree.targets import target_flags
from triage.compilers.pasted_text import calls_in
from triage.model.case import Target
from triage.recipes.family import RecipeStart, new_recipe

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
    line = words[0] if len(words) == 1 else shlex.join(words)
    call = next(calls_in(line, IreeRecipes.tools))
    return IreeRecipes().from_call(call, None, source)


def flags_of(shell: str) -> set[str]:
    """The flags of a shell line that affect the compiled code, in today's spelling."""
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
    form: str,
) -> None:
    pasted, _, shell = form.partition("\n->\n")
    start = start_from([pasted])
    assert start.target is not None
    assert new_recipe("pasted", "m.mlir", start)
    target = target_flags(start.target, KNOWN, start.flags)
    assert isinstance(target, list)
    expected = flags_of(shell or pasted)
    if not any(
        "target-backends" in flag or "target-device" in flag for flag in expected
    ):
        assert start.assumed
        expected.add(f"--iree-hal-target-backends={start.target.backend}")
    phase = [f"--compile-to={start.phase}"] if start.phase else []
    assert {*target, *start.flags, *phase} == expected


def test_outputs_are_left_out_and_devices_stay() -> None:
    line = (
        "A=1 ../build/tools/iree-compile --iree-hal-target-device=hip[0] --iree-hal-target-device=hip[1] a/b.mlirbc "
        "--iree-hip-target gfx942 -iree-opt-level=O3 --iree-hal-dump-executable-files-to dump -o=/dev/null"
    )
    start = start_from(shlex.split(line))
    assert (start.input, start.target) == (Path("a/b.mlirbc"), Target("rocm", "gfx942"))
    devices = [f"--iree-hal-target-device=hip[{index}]" for index in (0, 1)]
    assert list(start.flags) == [*devices, "--iree-opt-level=O3"]
    assert list(start.left_out) == [
        "--iree-hal-dump-executable-files-to=dump",
        "-o /dev/null",
    ]
