"""Targets and devices in IREE: how programs name them, and the options that name and
declare them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triage.compilers.invocation import flag_name
from triage.compilers.parts import runnable_keys
from triage.model.case import InputKind, Target
from triage.model.outcome import Cause, NoAnswer
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:
    from triage.mlir import Module

_PHASES = """
input abi preprocessing global-optimization dispatch-creation flow stream
executable-sources executable-configurations executable-targets hal vm end
"""
# Those that 2.9.0 to 3.13.0 compile a small program for.
_ROCM_CHIPS = """
gfx908 gfx90a gfx940 gfx941 gfx942 gfx950 gfx1010 gfx1011 gfx1012 gfx1013
gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 gfx1100 gfx1101 gfx1102
gfx1103 gfx1150 gfx1151 gfx1200 gfx1201 gfx1250
"""
_CUDA_CHIPS = """
sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_89 sm_120 sm_121
"""


IREE = RecipeFamily(
    name="iree",
    nicknames=("iree-compile", "mlir"),
    backends=(
        "cuda",
        "llvm-cpu",
        "metal-spirv",
        "rocm",
        "vmvx",
        "vmvx-inline",
        "vulkan-spirv",
        "webgpu-spirv",
    ),
    aliases={
        **dict.fromkeys(("amd", "amdgpu", "hip"), "rocm"),
        **dict.fromkeys(("cpu", "host", "llvm", "local"), "llvm-cpu"),
        **dict.fromkeys(("nvidia", "nvptx"), "cuda"),
        **dict.fromkeys(("spirv", "vulkan"), "vulkan-spirv"),
        "metal": "metal-spirv",
        "webgpu": "webgpu-spirv",
    },
    chips={"rocm": tuple(_ROCM_CHIPS.split()), "cuda": tuple(_CUDA_CHIPS.split())},
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

DEVICE_NAMES = {
    "rocm": "hip",
    "cuda": "cuda",
    "vulkan-spirv": "vulkan",
    "llvm-cpu": "local",
    "vmvx": "local",
    "metal-spirv": "metal",
}
DEVICE, BACKENDS = "--iree-hal-target-device=", "--iree-hal-target-backends="
LOCAL = "--iree-hal-local-target-device-backends="
_POSITION = re.compile(r"__device_(\d{1,4000})")  # Python reads no longer numbers
_NAMED = re.compile(r'([\w$.-]+)=(?=[\w#"])')
_REFERENCE = re.compile(
    r'#hal\.device\.(?:promise|affinity|fallback)<@("[^"]*"|[\w$.-]+)'
)
_TARGETS = "hal.device.targets"
# Newest spelling first; the first one that a version lists is used.
CHIP_FLAGS = {
    "rocm": ("iree-rocm-target", "iree-hip-target"),
    "cuda": ("iree-cuda-target",),
    "vulkan-spirv": ("iree-vulkan-target",),
    "llvm-cpu": ("iree-llvmcpu-target-cpu",),
}
# A recipe names the chip once; each version gets its own spelling. Older spellings are
# read only.
CHIPS = {
    f"--{name}": backend
    for backend, spellings in CHIP_FLAGS.items()
    for name in spellings
} | {
    "--iree-rocm-target-chip": "rocm",
    "--iree-cuda-llvm-target-arch": "cuda",
    "--iree-hal-cuda-llvm-target-arch": "cuda",
    "--iree-llvm-target-cpu": "llvm-cpu",
}
# A program for a late phase names its targets itself.
STARTS_LATE = re.compile(
    r"--compile-mode=hal-executable|--compile-from=(?:executable-\w+|hal|vm)\b"
)


@dataclass(frozen=True, slots=True)
class DeclaredDevices:
    """The devices that options or a module declare."""

    devices: dict[str, str] = field(default_factory=dict)
    """Name -> the option or attribute that declares it."""
    problem: str | None = None
    """Why the compiler rejects the options."""


def devices_in(text: str) -> Iterator[str]:
    """Yield the devices that the text of an attribute or type refers to."""
    if "#hal.device." in text:
        yield from (name.strip('"') for name in _REFERENCE.findall(text))


def position_of(device: str) -> int | None:
    """Return the position that a device's name stands for; None if the name is
    user-defined.
    """
    found = _POSITION.fullmatch(device)
    if found:
        return int(found[1])
    return None


def devices_declared_by(options: Sequence[str]) -> DeclaredDevices:
    """Return the devices that a command line declares."""
    backends = [text for text in options if text.startswith(BACKENDS)]
    # the older option: one device, and options that declare devices are ignored
    if backends:
        return DeclaredDevices({"__device_0": backends[-1]})
    flags = [text for text in options if text.startswith(DEVICE)]
    names = [_NAMED.match(text.removeprefix(DEVICE)) for text in flags]
    if any(names) and not all(names):
        unnamed = flags[names.index(None)]
        return DeclaredDevices(
            problem=(
                f"`{unnamed}` has no name but other devices have: name all of them or "
                "none"
            )
        )
    positions = (
        name[1] if name else f"__device_{index}" for index, name in enumerate(names)
    )
    return DeclaredDevices(dict(zip(positions, flags, strict=True)))


def devices_declared_in(module: Module) -> dict[str, str]:
    """Return the devices that a module declares itself, as in `DeclaredDevices`."""
    from triage.mlir.tree import entries, split  # a compile does not parse the program

    found = {}
    for operation in module.body.operations:
        if (
            operation.name == "util.global"
            and "!hal.device" in (operation.attribute("type") or "")
            and operation.symbol
        ):
            found[operation.symbol] = f"util.global @{operation.symbol}"
    targets = (module.root.attribute(_TARGETS) or "").strip()
    if targets.startswith("{"):
        found |= dict.fromkeys(entries(targets[1:-1]), _TARGETS)
    elif targets:
        found |= {
            f"__device_{index}": _TARGETS
            for index, _ in enumerate(split(targets[1:-1]))
        }
    return found


def declaring_options(
    devices: Sequence[str], backend: str | None, options: Sequence[str]
) -> tuple[str, ...]:
    """Return the options that declare these devices, with the driver of the given
    options if they agree on one.
    """
    matches = [re.match(rf"{DEVICE}(?:[\w$.-]+=)?([a-z]+)", text) for text in options]
    drivers = {found[1] for found in matches if found}
    if len(drivers) == 1:
        driver = drivers.pop()
    else:
        driver = DEVICE_NAMES.get(backend or "", "local")
    positions = [position_of(name) for name in devices]
    if None in positions:  # one user-defined name: name all
        flags = [
            f"{DEVICE}{name}={driver}[{index}]" for index, name in enumerate(devices)
        ]
    else:
        # positions count: those before the last one must be declared, too
        last = max(position or 0 for position in positions)
        flags = [f"{DEVICE}{driver}[{index}]" for index in range(last + 1)]
    if driver == "local" and not any(text.startswith(LOCAL) for text in options):
        is_local = DEVICE_NAMES.get(backend or "") == "local"
        flags.append(f"{LOCAL}{backend if is_local else 'llvm-cpu'}")
    return tuple(flags)


def device_order(name: str) -> tuple[int, str, int, str]:
    """Return a key that sorts devices by position, and user-defined names after them,
    `d10` after `d9`.
    """
    position, head = position_of(name), name.rstrip("0123456789")
    return (
        1 << 30 if position is None else position,
        head,
        int(name[len(head) :][:9] or 0),
        name,
    )


def named_targets(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the backends that a command line names or implies, and the chips of
    GPUs.
    """
    backends, chips = [], []
    for flag, _, value in (text.partition("=") for text in options):
        if f"{flag}=" in (BACKENDS, LOCAL):
            backends += value.split(",")
        elif f"{flag}=" == DEVICE:
            driver = re.split(r"[\[:,]", re.sub(r"^[\w$.-]+=", "", value))[0]
            if driver != "local" or not any(text.startswith(LOCAL) for text in options):
                backends.append(IREE.aliases.get(driver, driver))
        elif flag in CHIPS and is_gpu(CHIPS[flag]):
            backends.append(CHIPS[flag])
            chips.append(value)
    return backends, chips


def target_of(options: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the backend and the chip that a command line compiles for; None for one of
    which it does not name exactly one.
    """
    backends, chips = map(set, named_targets(options))
    backend = backends.pop() if len(backends) == 1 else None
    chip = chips.pop() if len(chips) == 1 else None
    return backend, chip


def is_gpu(backend: str | None) -> bool:
    """Return whether a backend's programs run on a GPU."""
    return DEVICE_NAMES.get(backend or "", "local") != "local"


def target_flags(
    target: Target, supported: frozenset[str], own: Sequence[str]
) -> list[str] | NoAnswer:
    """Return the flags for backend or devices, and chip, or why the version has none.

    supported: the flags of the version, without dashes. The recipe's `own` flags are
    not repeated.
    """
    flags: list[str] = []
    if not any(
        text.startswith((DEVICE, BACKENDS)) or STARTS_LATE.match(text) for text in own
    ):
        flags += device_flags(target)
    if target.chip is not None:
        spelling = next(
            (name for name in CHIP_FLAGS.get(target.backend, ()) if name in supported),
            None,
        )
        if spelling is None:
            return NoAnswer(
                Cause.FLAG,
                f"this version has no flag that names a chip for {target.backend}",
            )
        if spelling not in map(flag_name, own):
            flags.append(f"--{spelling}={target.chip}")
    return flags


def device_flags(target: Target) -> list[str]:
    """Return the flags that name the target's backend or declare its devices."""
    if target.devices is None:
        return [f"{BACKENDS}{target.backend}"]
    name = DEVICE_NAMES[target.backend]
    flags = [f"{DEVICE}{name}[{ordinal}]" for ordinal in range(target.devices)]
    if name == "local":
        return [*flags, f"{LOCAL}{target.backend}"]
    return flags
