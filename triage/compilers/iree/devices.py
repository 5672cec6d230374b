"""Targets and devices in IREE: how programs name them, and the options that name and declare them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import flag_name
from triage.model.case import Case, Target
from triage.model.outcome import Cause, Untestable

if TYPE_CHECKING:
    from triage.mlir import Module

DEVICE_NAMES = {
    "rocm": "hip",
    "cuda": "cuda",
    "vulkan-spirv": "vulkan",
    "llvm-cpu": "local",
    "vmvx": "local",
    "metal-spirv": "metal",
}
DEVICE_FLAG = "iree-hal-target-device"
_DEVICE = f"--{DEVICE_FLAG}="
_BACKENDS = "--iree-hal-target-backends="
_LOCAL = "--iree-hal-local-target-device-backends="
_POSITION = re.compile(r"__device_(\d{1,4000})")  # Python reads no longer numbers
_NAMED = re.compile(r'([\w$.-]+)=(?=[\w#"])')
_DRIVER = re.compile(r"(?:([\w$.-]+)=)?(\w+)(?:\[\d+\])?\Z")
_REFERENCE_TEXT = r'#hal\.device\.(?:promise|affinity|fallback)<@("[^"]*"|[\w$.-]+)'
_REFERENCE = re.compile(_REFERENCE_TEXT)
_REFERENCE_BYTES = re.compile(_REFERENCE_TEXT.encode())
_TARGETS = "hal.device.targets"
# Newest spelling first; the first one that a version lists is used.
CHIP_FLAGS = {
    "rocm": ("iree-rocm-target", "iree-hip-target"),
    "cuda": ("iree-cuda-target",),
    "vulkan-spirv": ("iree-vulkan-target",),
    "llvm-cpu": ("iree-llvmcpu-target-cpu",),
}
# The chip flags that imply their backend; a program for a GPU may name the CPU of its host too.
_GPU_CHIP_FLAGS = {f"--{name}": backend for backend in ("rocm", "cuda") for name in CHIP_FLAGS[backend]}
# A program for a late phase names its targets itself.
STARTS_LATE = re.compile(r"--compile-mode=hal-executable|--compile-from=(?:executable-\w+|hal|vm)\b")
_MAX_DEVICES = 256  # a larger number in a program is a mistake


@dataclass(frozen=True, slots=True)
class DeclaredDevices:
    """The devices that options or a module declare."""

    devices: dict[str, str] = field(default_factory=dict)
    """Name -> the option or attribute that declares it."""
    problem: str | None = None
    """Why the compiler rejects the options."""
    sole: str | None = None
    """An option that makes the compiler ignore all others."""


def devices_in(text: str) -> Iterator[str]:
    """Yield the devices that the text of an attribute or type refers to."""
    if "#hal.device." in text:
        for found in _REFERENCE.finditer(text):
            yield found[1].strip('"')


def devices_named(program: Path) -> frozenset[str]:
    """Return the devices that a textual program refers to; the file may have any size."""
    if not program.stat().st_size:
        return frozenset()
    with program.open("rb") as source, mmap(source.fileno(), 0, access=ACCESS_READ) as text:
        return frozenset(match[1].decode().strip('"') for match in _REFERENCE_BYTES.finditer(text))


def position_of(device: str) -> int | None:
    """Return the position that a device's name stands for; None for a user-defined name."""
    found = _POSITION.fullmatch(device)
    return int(found[1]) if found else None


def declared_by(options: Sequence[str]) -> DeclaredDevices:
    """Return the devices that a command line declares."""
    backends = [text for text in options if text.startswith(_BACKENDS)]
    if backends:  # the older option: one device, and options that declare devices are ignored
        return DeclaredDevices({"__device_0": backends[-1]}, sole=backends[-1])
    flags = [text for text in options if text.startswith(_DEVICE)]
    names = [_NAMED.match(text.removeprefix(_DEVICE)) for text in flags]
    if any(names) and not all(names):
        unnamed = next(flag for flag, name in zip(flags, names, strict=True) if not name)
        return DeclaredDevices(problem=f"`{unnamed}` has no name but other devices have: name all of them or none")
    positions = (name[1] if name else f"__device_{index}" for index, name in enumerate(names))
    return DeclaredDevices(dict(zip(positions, flags, strict=True)))


def declared_in(module: Module) -> DeclaredDevices:
    """Return the devices that a module declares itself."""
    from triage.mlir.tree import entries, split  # a compile does not parse the program

    found = {}
    for operation in module.body.operations:
        if operation.name == "util.global" and "!hal.device" in (operation.attribute("type") or "") and operation.symbol:
            found[operation.symbol] = f"util.global @{operation.symbol}"
    targets = (module.root.attribute(_TARGETS) or "").strip()
    if targets.startswith("{"):
        found |= dict.fromkeys(entries(targets[1:-1]), _TARGETS)
    elif targets:
        found |= {f"__device_{index}": _TARGETS for index, _ in enumerate(split(targets[1:-1]))}
    return DeclaredDevices(found)


def declaring(devices: Sequence[str], backend: str | None, options: Sequence[str]) -> tuple[str, ...]:
    """Return the options that declare these devices, with the driver of the given options if they agree on one."""
    drivers = {found[1] for text in options if (found := re.match(rf"{_DEVICE}(?:[\w$.-]+=)?([a-z]+)", text))}
    driver = drivers.pop() if len(drivers) == 1 else DEVICE_NAMES.get(backend or "", "local")
    positions = [position_of(name) for name in devices]
    if None in positions:  # one user-defined name: name all
        flags = [f"{_DEVICE}{name}={driver}[{index}]" for index, name in enumerate(devices)]
    else:
        flags = [f"{_DEVICE}{driver}[{index}]" for index in range(max(position or 0 for position in positions) + 1)]
    if driver == "local" and not any(text.startswith(_LOCAL) for text in options):
        flags.append(f"{_LOCAL}{backend if DEVICE_NAMES.get(backend or '') == 'local' else 'llvm-cpu'}")
    return tuple(flags)


def declaring_for(case: Case, devices: Collection[str]) -> tuple[str, ...] | None:
    """Return the options that declare these devices besides those of the case's own options.

    Returns:
        None if all are declared, or if no option can declare them.
    """
    options = [flag.text for flag in case.flags]
    values = [text.removeprefix(_DEVICE) for text in options if text.startswith(_DEVICE)]
    drivers = [_DRIVER.match(value) for value in values]
    wanted = sorted(devices, key=_natural_order)
    positions = [position_of(name) for name in wanted]
    known = bool(values) or case.target.backend in DEVICE_NAMES
    if not wanted or not known or not all(drivers) or max((number or 0 for number in positions), default=0) >= _MAX_DEVICES:
        return None
    named = [driver[1] for driver in drivers if driver and driver[1]]
    if None in positions or named:
        enough = set(wanted) <= set(named)
        wanted = [*named, *(name for name in wanted if name not in named)]
    else:
        enough = max(number or 0 for number in positions) < (len(values) or case.target.devices or 0)
    return None if enough else declaring(wanted, case.target.backend, options)


def _natural_order(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name


def target_of(options: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the backend and the chip that a command line compiles for; None for none or several."""
    backends = {text.removeprefix(flag) for text in options for flag in (_BACKENDS, _LOCAL) if text.startswith(flag)}
    chips = {text.partition("=")[2]: text.partition("=")[0] for text in options if text.partition("=")[0] in _GPU_CHIP_FLAGS}
    backends |= {_GPU_CHIP_FLAGS[flag] for flag in chips.values()}
    for text in options:
        if text.startswith(_DEVICE):
            driver = re.sub(r"^[\w$.-]+=", "", text.removeprefix(_DEVICE)).partition("[")[0]
            backends |= {backend for backend, name in DEVICE_NAMES.items() if name == driver and name != "local"}
    return backends.pop() if len(backends) == 1 else None, next(iter(chips)) if len(chips) == 1 else None


def is_gpu(backend: str | None) -> bool:
    """Whether a backend's programs run on a GPU."""
    return backend in DEVICE_NAMES and DEVICE_NAMES[backend] != "local"


def target_flags(target: Target, known: frozenset[str], own: Sequence[str]) -> list[str] | Untestable:
    """Return the flags for backend or devices, and chip, or why the version has none.

    known: the flags of the version; own: the flags of the recipe, which are not repeated.
    """
    flags: list[str] = []
    present = {flag_name(flag) for flag in own}
    if present.isdisjoint((DEVICE_FLAG, "iree-hal-target-backends")) and not any(map(STARTS_LATE.match, own)):
        flags += device_flags(target)
    if target.chip is not None:
        spellings = CHIP_FLAGS.get(target.backend, ())
        spelling = next((name for name in spellings if name in known), None)
        if spelling is None:
            return Untestable(Cause.FLAG, f"this version has no flag that names a chip for {target.backend}")
        if spelling not in present:
            flags.append(f"--{spelling}={target.chip}")
    return flags


def device_flags(target: Target) -> list[str]:
    """Return the flags that name the target's backend or declare its devices."""
    if target.devices is None:
        return [f"{_BACKENDS}{target.backend}"]
    name = DEVICE_NAMES[target.backend]
    flags = [f"{_DEVICE}{name}[{ordinal}]" for ordinal in range(target.devices)]
    if name == "local":
        flags.append(f"{_LOCAL}{target.backend}")
    return flags
