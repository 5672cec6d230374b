"""Targets in IREE: its backends, and the options that name them, their chips and their
devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from triage.compilers.invocation import flag_name
from triage.model.case import InputKind, Target
from triage.model.outcome import Cause, NoAnswer
from triage.recipes.recipe import RecipeFamily
from triage.recipes.run_keys import RunnableRecipe

_PHASES = """
input abi preprocessing global-optimization dispatch-creation flow stream
executable-sources executable-configurations executable-targets hal vm end
"""


@dataclass(frozen=True)
class Backend:
    """How a backend, its devices and its chips are named, see `targets.yaml`."""

    driver: str = ""
    chip_options: Sequence[str] = ()
    old_chip_options: Sequence[str] = ()
    aliases: Sequence[str] = ()


_TEXT = Path(__file__).with_name("targets.yaml").read_text("utf-8")
BACKENDS = {
    name: Backend(**keys) for name, keys in yaml.load(_TEXT, yaml.CSafeLoader).items()
}
CHIP_FLAGS = {
    flag: name
    for name, backend in BACKENDS.items()
    for flag in (*backend.chip_options, *backend.old_chip_options)
}
"""Flag that names a chip -> its backend."""

IREE = RecipeFamily(
    name="iree",
    nicknames=("iree-compile", "mlir"),
    backends=tuple(BACKENDS),
    aliases={
        alias: name for name, backend in BACKENDS.items() for alias in backend.aliases
    },
    phases=tuple(_PHASES.split()),
    sections=("run", "bench"),
    keys=RunnableRecipe,
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

_POSITION = re.compile(r"__device_(\d{1,3})")  # a larger number is a mistake
_DECLARED = re.compile(r'(?:([\w$.-]+)=(?=[\w#"]))?([^\[:,]*)')
_REFERENCE = re.compile(
    r'#hal\.device\.(?:promise|affinity|fallback)<@("[^"]*"|[\w$.-]+)'
)


def driver_of(backend: str | None) -> str:
    """Return the runtime's name for the devices of a backend; `local` for a CPU."""
    return BACKENDS.get(backend or "", Backend()).driver or "local"


def named_target(options: Sequence[str], backend: str | None = None) -> Target | None:
    """Return the target that a command line compiles for: `backend`, or else one that
    it names or implies, and its chip if it names exactly one. None if it names no
    backend.
    """
    backends = [backend] if backend else _backends_in(options)
    if not backends:
        return None
    # a GPU comes first: versions spell its chip differently
    backends.sort(key=lambda name: (name not in ("rocm", "cuda"), name not in BACKENDS))
    chosen = backends[0]
    chips = {
        option.partition("=")[2] for option in options if chip_flag(option, chosen)
    }
    return Target(chosen, chips.pop() if len(chips) == 1 else None)


def chip_flag(option: str, backend: str) -> bool:
    """Return whether an option names a chip of a backend."""
    return CHIP_FLAGS.get(flag_name(option)) == backend


def _backends_in(options: Sequence[str]) -> list[str]:
    backends = []
    has_local = any(text.startswith(LOCAL) for text in options)
    for option in options:
        of_chip = CHIP_FLAGS.get(flag_name(option))
        if option.startswith((TARGET_BACKENDS, LOCAL)):
            backends += option.partition("=")[2].split(",")
        elif option.startswith(DEVICE):
            _, driver = _device_and_driver(option)
            if driver != "local" or not has_local:
                backends.append(IREE.aliases.get(driver, driver))
        elif of_chip and driver_of(of_chip) != "local":
            backends.append(of_chip)
    return backends


def target_flags(
    target: Target, supported: frozenset[str], recipe_flags: Sequence[str]
) -> list[str] | NoAnswer:
    """Return the flags for backend or devices, and chip, or why the version has none.

    supported: the flags of the version, without dashes. The `recipe_flags` are not
    repeated.
    """
    flags: list[str] = []
    if not any(text.startswith((DEVICE, TARGET_BACKENDS)) for text in recipe_flags):
        flags += selecting_flags(target)
    if target.chip is None:
        return flags
    backend = BACKENDS.get(target.backend, Backend())
    for spelling in backend.chip_options:
        if spelling in supported:
            if spelling not in map(flag_name, recipe_flags):
                flags.append(f"--{spelling}={target.chip}")
            return flags
    return NoAnswer(
        Cause.FLAG, f"this version has no flag that names a chip for {target.backend}"
    )


def selecting_flags(target: Target) -> list[str]:
    """Return the flags that name the target's backend or declare its devices."""
    if target.devices is None:
        return [f"{TARGET_BACKENDS}{target.backend}"]
    names = [f"__device_{number}" for number in range(target.devices)]
    return declaring_options(names, target.backend, ())


def declaring_options(
    devices: Sequence[str], backend: str | None, options: Sequence[str]
) -> list[str]:
    """Return the options that declare these devices, for a command with `options`."""
    driver = driver_of(backend)
    if all(map(_POSITION.fullmatch, devices)):
        # positions count: those before the last one must be declared, too
        last, _ = max(map(device_order, devices))
        prefixes = [""] * (last + 1)
    else:  # one user-defined name: name all
        prefixes = [f"{name}=" for name in devices]
    flags = [f"{DEVICE}{name}{driver}[{index}]" for index, name in enumerate(prefixes)]
    if driver == "local" and not any(text.startswith(LOCAL) for text in options):
        flags.append(f"{LOCAL}{backend or 'llvm-cpu'}")
    return flags


def missing_options(
    devices: set[str], backend: str | None, options: Sequence[str]
) -> tuple[str, ...]:
    """Return the options that declare these devices, and all that a command line
    declares; nothing if it declares all.
    """
    declared = devices_declared_by(options)
    missing = sorted(devices - declared.keys(), key=device_order)
    if not missing:
        return ()
    return tuple(declaring_options([*declared, *missing], backend, options))


def devices_declared_by(options: Sequence[str]) -> dict[str, str]:
    """Return the devices that a command line declares: name -> option."""
    backends = [text for text in options if text.startswith(TARGET_BACKENDS)]
    # the older option: one device, and options that declare devices are ignored
    if backends:
        return {"__device_0": backends[-1]}
    flags = [text for text in options if text.startswith(DEVICE)]
    return {
        _device_and_driver(flag)[0] or f"__device_{index}": flag
        for index, flag in enumerate(flags)
    }


def _device_and_driver(option: str) -> tuple[str | None, str]:
    """Return the name that an option gives to a device, if any, and its driver."""
    match = _DECLARED.match(option, len(DEVICE))
    assert match  # every text
    return match[1], match[2]


def devices_in(text: str) -> Iterator[str]:
    """Yield the devices that the text of a program, attribute or type refers to."""
    if "#hal.device." in text:
        yield from (name.strip('"') for name in _REFERENCE.findall(text))


def device_order(name: str) -> tuple[int, str]:
    """Return a key that sorts devices by position, and user-defined names last."""
    match = _POSITION.fullmatch(name)
    if match:
        return int(match[1]), name
    return 1 << 30, name
