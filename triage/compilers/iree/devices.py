"""The devices that a program names, and the options that declare them. `remedy` and
`lint` declare those that are missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from triage.compilers.iree.targets import (
    DEVICE,
    LOCAL,
    TARGET_BACKENDS,
    device_flags,
    driver_of,
)
from triage.compilers.parts import RemedyHints
from triage.model.case import Case

_POSITION = re.compile(r"__device_(\d{1,3})")  # a larger number is a mistake
_NAMED = re.compile(r'([\w$.-]+)=(?=[\w#"])')
_REFERENCE = re.compile(
    r'#hal\.device\.(?:promise|affinity|fallback)<@("[^"]*"|[\w$.-]+)'
)


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


def devices_declared_by(options: Sequence[str]) -> dict[str, str]:
    """Return the devices that a command line declares: name -> option."""
    backends = [text for text in options if text.startswith(TARGET_BACKENDS)]
    # the older option: one device, and options that declare devices are ignored
    if backends:
        return {"__device_0": backends[-1]}
    flags = [text for text in options if text.startswith(DEVICE)]
    names = [_NAMED.match(text.removeprefix(DEVICE)) for text in flags]
    return {
        name[1] if name else f"__device_{index}": flag
        for index, (name, flag) in enumerate(zip(names, flags, strict=True))
    }


def declaring_options(
    devices: Sequence[str], backend: str | None, options: Sequence[str]
) -> tuple[str, ...]:
    """Return the options that declare these devices, for a command with `options`."""
    driver = driver_of(backend)
    positions = [_POSITION.fullmatch(name) for name in devices]
    if all(positions):
        # positions count: those before the last one must be declared, too
        last, _ = max(map(device_order, devices))
        names = [""] * (last + 1)
    else:  # one user-defined name: name all
        names = [f"{name}=" for name in devices]
    flags = [f"{DEVICE}{name}{driver}[{index}]" for index, name in enumerate(names)]
    if driver == "local" and not any(text.startswith(LOCAL) for text in options):
        if backend not in ("llvm-cpu", "vmvx"):
            backend = "llvm-cpu"
        flags.append(f"{LOCAL}{backend}")
    return tuple(flags)


class IreeRemedies(RemedyHints):
    """Tells the search for remedies how a program names devices."""

    def devices_named(self, program: Path) -> frozenset[str]:
        with program.open(encoding="utf-8", errors="replace") as lines:
            return frozenset(name for line in lines for name in devices_in(line))

    def declaring_options(
        self, case: Case, devices: Collection[str]
    ) -> tuple[str, ...] | None:
        options = [flag.text for flag in case.flags]
        has_devices = any(text.startswith(DEVICE) for text in options)
        if case.target.devices and not has_devices:
            options += device_flags(case.target)
        declared = devices_declared_by(options)
        missing = sorted(set(devices) - declared.keys(), key=device_order)
        if not missing:
            return None
        wanted = [*declared, *missing]
        return declaring_options(wanted, case.target.backend, options)
