"""Devices in IREE: how they are named in programs, declared on command lines, and solved for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from triage.compilers.placement import Declared, MissingTypes, PlacementWords, Solver
from triage.mlir import Module
from triage.mlir.tree import entries, split
from triage.model.revision import Toolchain

DEVICE_NAMES = {
    "rocm": "hip",
    "cuda": "cuda",
    "vulkan-spirv": "vulkan",
    "llvm-cpu": "local",
    "vmvx": "local",
    "metal-spirv": "metal",
}
_DEVICE = "--iree-hal-target-device="
_BACKENDS = "--iree-hal-target-backends="
_LOCAL = "--iree-hal-local-target-device-backends="
_POSITION = re.compile(r"__device_(\d+)")
_NAMED = re.compile(r'([\w$.-]+)=(?=[\w#"])')
_REFERENCE = re.compile(r'#hal\.device\.(?:promise|affinity|fallback)<@("[^"]*"|[\w$.-]+)')
_TARGETS = "hal.device.targets"
_LIMIT = "iree-stream-affinity-solver-max-iterations"
_CHIP_FLAGS = {"--iree-rocm-target": "rocm", "--iree-hip-target": "rocm", "--iree-cuda-target": "cuda"}


class IreePlacement:
    """Devices of the IREE family."""

    @property
    def words(self) -> PlacementWords:
        return _told()[0]

    @property
    def missing_types(self) -> Sequence[MissingTypes]:
        return _told()[1]

    def devices_in(self, text: str) -> Iterator[str]:
        if "#hal.device." in text:
            for found in _REFERENCE.finditer(text):
                yield found[1].strip('"')

    def position(self, device: str) -> int | None:
        found = _POSITION.fullmatch(device)
        return int(found[1]) if found else None

    def declared_by(self, options: Sequence[str]) -> Declared:
        backends = [text for text in options if text.startswith(_BACKENDS)]
        if backends:  # the older flag: one device, and flags that declare devices are not looked at
            return Declared({"__device_0": backends[-1]}, sole=backends[-1])
        flags = [text for text in options if text.startswith(_DEVICE)]
        names = [_NAMED.match(text.removeprefix(_DEVICE)) for text in flags]
        if any(names) and not all(names):
            unnamed = next(flag for flag, name in zip(flags, names, strict=True) if not name)
            return Declared(problem=f"`{unnamed}` has no name and others have: the compiler wants all of them named, or none")
        positions = (name[1] if name else f"__device_{index}" for index, name in enumerate(names))
        return Declared(dict(zip(positions, flags, strict=True)))

    def declared_in(self, module: Module) -> Declared:
        found = {}
        for one in module.body.operations:
            if one.name == "util.global" and "!hal.device" in (one.attribute("type") or "") and one.symbol:
                found[one.symbol] = f"util.global @{one.symbol}"
        targets = (module.root.attribute(_TARGETS) or "").strip()
        if targets.startswith("{"):
            found |= dict.fromkeys(entries(targets[1:-1]), _TARGETS)
        elif targets:
            found |= {f"__device_{index}": _TARGETS for index, _ in enumerate(split(targets[1:-1]))}
        return Declared(found)

    def declaring(self, devices: Sequence[str], backend: str | None, given: Sequence[str]) -> tuple[str, ...]:
        kinds = {found[1] for text in given if (found := re.match(rf"{_DEVICE}(?:[\w$.-]+=)?([a-z]+)", text))}
        kind = kinds.pop() if len(kinds) == 1 else DEVICE_NAMES.get(backend or "", "local")
        positions = [self.position(name) for name in devices]
        if None in positions:  # a name of one's own: then all must be named
            flags = [f"{_DEVICE}{name}={kind}[{index}]" for index, name in enumerate(devices)]
        else:
            flags = [f"{_DEVICE}{kind}[{index}]" for index in range(max(one or 0 for one in positions) + 1)]
        if kind == "local" and not any(text.startswith(_LOCAL) for text in given):
            flags.append(f"{_LOCAL}{backend if DEVICE_NAMES.get(backend or '') == 'local' else 'llvm-cpu'}")
        return tuple(flags)

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        backends = {text.removeprefix(flag) for text in options for flag in (_BACKENDS, _LOCAL) if text.startswith(flag)}
        chips = {text.partition("=")[2]: text.partition("=")[0] for text in options if text.partition("=")[0] in _CHIP_FLAGS}
        backends |= {_CHIP_FLAGS[flag] for flag in chips.values()}
        for text in options:
            if text.startswith(_DEVICE):
                kind = re.sub(r"^[\w$.-]+=", "", text.removeprefix(_DEVICE)).partition("[")[0]
                backends |= {backend for backend, name in DEVICE_NAMES.items() if name == kind and name != "local"}
        return backends.pop() if len(backends) == 1 else None, next(iter(chips)) if len(chips) == 1 else None

    def gpu(self, backend: str | None) -> bool:
        return backend in DEVICE_NAMES and DEVICE_NAMES[backend] != "local"

    def solver(self, toolchain: Toolchain) -> Solver:
        known = _LIMIT in toolchain.capabilities.flags
        return Solver(
            limit=f"--{_LIMIT}=" if known else None,
            # Data tiling runs an analysis of devices of its own, which may fail before there is anything to measure.
            prepared=("--iree-opt-data-tiling=false",) if "iree-opt-data-tiling" in toolchain.capabilities.flags else (),
            prepared_phase="flow",
            analysis=("--iree-stream-annotate-affinities",),
            phase="stream",
            family="non-convergence",
        )


@cache
def _told() -> tuple[PlacementWords, tuple[MissingTypes, ...]]:
    told: dict[str, Any] = yaml.safe_load(files("triage.compilers.iree").joinpath("placement.yaml").read_text("utf-8"))
    words: dict[str, Any] = told["words"]
    lacking = tuple(
        MissingTypes(
            backends=frozenset(one["backends"]),
            types=frozenset(one["types"]),
            why=one["why"],
            chips=re.compile(one["chips"]) if "chips" in one else None,
            interface=one.get("interface", False),
            unless=one.get("unless"),
        )
        for one in told["missing_types"]
    )
    plain = {"interface", "barrier", "placed_by", "updates", "demoted"}
    sets = {name: frozenset(value) for name, value in words.items() if name not in plain}
    return PlacementWords(
        words["interface"],
        tuple(words["placed_by"]),
        barrier=words["barrier"],
        updates=words["updates"],
        demoted=words["demoted"],
        **sets,
    ), lacking
