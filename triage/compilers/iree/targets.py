"""Targets in IREE: its backends, and the options that name them and their chips."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triage.compilers.invocation import Invocation, flag_name
from triage.compilers.parts import runnable_keys
from triage.model.case import InputKind, Target
from triage.model.outcome import Cause, NoAnswer
from triage.recipes.recipe import RecipeFamily

_PHASES = """
input abi preprocessing global-optimization dispatch-creation flow stream
executable-sources executable-configurations executable-targets hal vm end
"""


@dataclass(frozen=True, slots=True)
class Backend:
    """How a backend, its devices and its chips are named; words in a text."""

    driver: str = ""
    """The runtime's name for its devices."""
    chip_flags: str = ""
    """Flags that name the chip, the newest spelling first."""
    old_chip_flags: str = ""
    """Spellings that are only read."""
    aliases: str = ""


BACKENDS = {
    "cuda": Backend(
        "cuda",
        "iree-cuda-target",
        "iree-cuda-llvm-target-arch iree-hal-cuda-llvm-target-arch",
        "nvidia nvptx",
    ),
    "llvm-cpu": Backend(
        "local",
        "iree-llvmcpu-target-cpu",
        "iree-llvm-target-cpu",
        "cpu dylib dylib-llvm-aot host llvm local",
    ),
    "metal-spirv": Backend("metal", aliases="metal"),
    "rocm": Backend(
        "hip",
        "iree-rocm-target iree-hip-target",
        "iree-rocm-target-chip",
        "amd amdgpu hip",
    ),
    "vmvx": Backend("local"),
    "vmvx-inline": Backend(),
    "vulkan-spirv": Backend("vulkan", "iree-vulkan-target", aliases="spirv vulkan"),
    "webgpu-spirv": Backend(aliases="webgpu"),
}
CHIP_FLAGS = {
    flag: name
    for name, backend in BACKENDS.items()
    for flag in f"{backend.chip_flags} {backend.old_chip_flags}".split()
}
"""Flag that names a chip -> its backend."""

IREE = RecipeFamily(
    name="iree",
    nicknames=("iree-compile", "mlir"),
    backends=tuple(BACKENDS),
    aliases={
        alias: name
        for name, backend in BACKENDS.items()
        for alias in backend.aliases.split()
    },
    phases=tuple(_PHASES.split()),
    sections=("run", "bench"),
    keys=runnable_keys,
    inputs={
        ".mlir": InputKind.MLIR,
        ".mlirbc": InputKind.BYTECODE,
        ".onnx": InputKind.ONNX,
        ".py": InputKind.GENERATOR,
    },
    imported=frozenset({InputKind.ONNX}),
)
"""What a recipe may contain."""

DEVICE = "--iree-hal-target-device="
TARGET_BACKENDS = "--iree-hal-target-backends="
LOCAL = "--iree-hal-local-target-device-backends="
SELECTING = (DEVICE, TARGET_BACKENDS, LOCAL)
"""The beginnings of options that name backends or devices."""


def driver_of(backend: str | None) -> str:
    """Return the runtime's name for the devices of a backend; `local` for a CPU."""
    return BACKENDS.get(backend or "", Backend()).driver or "local"


def named_targets(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the backends that a command line names or implies, and the chips of
    GPUs.
    """
    backends, chips = [], []
    has_local = any(text.startswith(LOCAL) for text in options)
    for option in options:
        flag, _, value = option.partition("=")
        of_chip = CHIP_FLAGS.get(flag_name(flag))
        if option.startswith((TARGET_BACKENDS, LOCAL)):
            backends += value.split(",")
        elif option.startswith(DEVICE):
            driver = re.split(r"[\[:,]", re.sub(r"^[\w$.-]+=", "", value))[0]
            if driver != "local" or not has_local:
                backends.append(IREE.aliases.get(driver, driver))
        elif of_chip and driver_of(of_chip) != "local":
            backends.append(of_chip)
            chips.append(value)
    return backends, chips


def target_of(options: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the backend and the chip that a command line compiles for; None for one of
    which it does not name exactly one.
    """
    backend, chip = map(_only_one, named_targets(options))
    return backend, chip


def _only_one(words: list[str]) -> str | None:
    if len(set(words)) == 1:
        return words[0]
    return None


def target_flags(
    target: Target, supported: frozenset[str], recipe_flags: Sequence[str]
) -> list[str] | NoAnswer:
    """Return the flags for backend or devices, and chip, or why the version has none.

    supported: the flags of the version, without dashes. The `recipe_flags` are not
    repeated.
    """
    flags: list[str] = []
    if not any(text.startswith((DEVICE, TARGET_BACKENDS)) for text in recipe_flags):
        flags += device_flags(target)
    if target.chip is None:
        return flags
    backend = BACKENDS.get(target.backend, Backend())
    for spelling in backend.chip_flags.split():
        if spelling in supported:
            if spelling not in map(flag_name, recipe_flags):
                flags.append(f"--{spelling}={target.chip}")
            return flags
    return NoAnswer(
        Cause.FLAG, f"this version has no flag that names a chip for {target.backend}"
    )


def device_flags(target: Target) -> list[str]:
    """Return the flags that name the target's backend or declare its devices."""
    if target.devices is None:
        return [f"{TARGET_BACKENDS}{target.backend}"]
    driver = driver_of(target.backend)
    flags = [f"{DEVICE}{driver}[{ordinal}]" for ordinal in range(target.devices)]
    if driver == "local":
        flags.append(f"{LOCAL}{target.backend}")
    return flags


def with_printing(invocation: Invocation, *options: str) -> Invocation:
    """Return the same compile with the options that the recipe does not set."""
    names = {flag_name(option) for option in invocation.options}
    added = (option for option in options if flag_name(option) not in names)
    return replace(invocation, printing=(*invocation.printing, *added))
