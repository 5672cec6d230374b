"""Which devices a program names, and the flags that declare them all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from triage.compilers.iree.adapter import device_flags
from triage.model.case import Case
from triage.remedy.change import DEVICE_FLAG, Devices, own_devices

_NAMED = re.compile(rb"#hal\.device\.(?:promise|affinity)<@([\w$.-]+)")
_NUMBERED = re.compile(r"__device_(\d+)\Z")
_DRIVER = re.compile(r"(?:(?P<name>[\w$.-]+)=)?(?P<driver>\w+)(?:\[\d+\])?\Z")
_MOST = 256  # a larger ordinal is no device but a mistake
_PIECE = 1 << 20
_OVERLAP = 256  # bytes; longer than any reference


def devices_named(program: Path) -> frozenset[str]:
    """The devices that a program in MLIR's text refers to, read in pieces; the file may be of any size."""
    found: set[bytes] = set()
    tail = b""
    with program.open("rb") as source:
        while piece := source.read(_PIECE):
            text = tail + piece
            # A name that ends with the text may go on in the next piece, which the overlap reads again.
            found.update(match[1] for match in _NAMED.finditer(text) if match.end() < len(text))
            tail = text[-_OVERLAP:]
    found.update(match[1] for match in _NAMED.finditer(tail))
    return frozenset(name.decode() for name in found)


def declaring(case: Case, names: Iterable[str], why: str = "") -> Devices | None:
    """What declares all of `names`; None where they are declared already, or no flag can tell it.

    Unnamed flags bind by position, from @__device_0 on. As soon as one name is not of that kind, all are declared by name.
    """
    wanted = sorted(names, key=_natural)
    numbers = [int(found[1]) for name in wanted if (found := _NUMBERED.match(name))]
    one, *others = _flags_of_one(case) or ("",)
    parts = [_DRIVER.match(text) for text in (own_devices(case) or (one.partition("=")[2],))]
    if not wanted or max(numbers, default=0) >= _MOST or not all(parts):
        return None
    declared = [part["name"] for part in parts if part and part["name"]]
    driver = parts[0]["driver"] if parts[0] else ""
    if len(numbers) < len(wanted) or declared:
        everyone = [*declared, *(name for name in wanted if name not in declared)]
        values = [f"{name}={driver}[{ordinal}]" for ordinal, name in enumerate(everyone)]
        enough = set(wanted) <= set(declared)
    else:
        values = [f"{driver}[{ordinal}]" for ordinal in range(max(numbers) + 1)]
        enough = len(values) <= (len(own_devices(case)) or case.target.devices or 0)
    return None if enough else Devices((*(f"--{DEVICE_FLAG}={value}" for value in values), *others), why)


def _flags_of_one(case: Case) -> tuple[str, ...]:
    """The flags that declare one device; none for a backend that has no devices."""
    try:
        return tuple(device_flags(replace(case.target, devices=1)))
    except KeyError:
        return ()


def _natural(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name
