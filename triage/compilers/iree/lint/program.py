"""A program as the lint rules see it: its tree, its options, and the device of each
value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from triage.compilers.iree.devices import (
    DeclaredDevices,
    devices_declared_by,
    devices_declared_in,
    devices_in,
)
from triage.mlir import Module, Operation, SourcePosition, Value
from triage.mlir.tree import Region, arguments_of, array_elements, entries, free_values

LOOPS = ("scf.for", "scf.while")
TRANSFER = "flow.tensor.transfer"
# operations whose results are their operands
PASSES_ON = ("util.optimization_barrier", "flow.tensor.barrier", "flow.tensor.clone")
LOAD, STORE = "util.global.load", "util.global.store"
_AFFINITY = "iree.abi.affinity"  # of an argument or a result
_PLACED_BY = ("stream.affinity", "affinity", "target")  # attributes of operations
# dialects and operations that only pass values on
_CARRIERS = ("func", "scf", "cf", "util", "hal", "builtin", "stream", "vm")
_CARRIED = (TRANSFER, "flow.tensor.barrier", "flow.return")
_ALIAS = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")
_TENSORS = ("tensor<", "!torch.vtensor<", "!hal.buffer_view", "!stream.resource")

Place = tuple[str, SourcePosition | None]
"""A device, and where it is named."""


@dataclass(frozen=True, slots=True)
class Port:
    """An argument or a result of a function."""

    kind: str
    """argument or result"""
    index: int
    value: Value
    device: str | None
    """The device that its affinity names."""
    position: SourcePosition | None


@dataclass(frozen=True)
class LintProgram:
    """A module, the options it is compiled with, and its backend if known."""

    module: Module
    options: Sequence[str] = ()
    backend: str | None = None

    @cached_property
    def devices_of_module(self) -> dict[str, str]:
        """The devices that the module declares itself."""
        return devices_declared_in(self.module)

    @cached_property
    def declared_devices(self) -> DeclaredDevices | None:
        """The devices that options and module declare; None if they mention none."""
        flags = devices_declared_by(self.options)
        devices = flags.devices | self.devices_of_module
        if devices or flags.problem:
            return replace(flags, devices=devices)
        return None

    @cached_property
    def functions(self) -> list[Operation]:
        return self.module.functions()

    @cached_property
    def references(self) -> list[Place]:
        """Every device reference in an attribute or a result type, in source order."""
        texts: list[Place] = []
        for operation in self.module.walk():
            attributes = array_elements(operation.attribute("arg_attrs"))
            for text, value in zip(attributes, arguments_of(operation), strict=False):
                texts.append((text, value.position or operation.position))
            named = {**operation.properties, **operation.attributes, "arg_attrs": ""}
            types = [value.type for value in operation.results]
            texts += [(text, operation.position) for text in (*named.values(), *types)]
        return [(name, place) for text, place in texts for name in self._devices(text)]

    def _devices(self, text: str) -> Iterator[str]:
        """Yield the devices in the text of an attribute or type, also behind
        aliases.
        """
        yield from devices_in(text)
        if "#" not in text:
            return
        for alias in _ALIAS.findall(text):
            yield from self._devices(self.module.aliases.get(alias, ""))

    def _device(self, text: str | None) -> str | None:
        """Return the device that an attribute names; None unless exactly one."""
        return _only_one(set(self._devices(text or "")))

    @cached_property
    def ports(self) -> Mapping[Operation, Sequence[Port]]:
        """The arguments and the results of each function."""
        return {function: list(self._ports_of(function)) for function in self.functions}

    def _ports_of(self, function: Operation) -> Iterator[Port]:
        end = terminator(function.regions[0])
        for kind, attribute, values in (
            ("argument", "arg_attrs", arguments_of(function)),
            ("result", "res_attrs", end.operands),
        ):
            texts = array_elements(function.attribute(attribute)) or [""] * len(values)
            for index, (value, text) in enumerate(zip(values, texts, strict=False)):
                device = self._device(entries(text[1:-1]).get(_AFFINITY))
                place = end.position
                if kind == "argument":
                    place = value.position
                yield Port(kind, index, value, device, place or function.position)

    @cached_property
    def operations(self) -> Sequence[Operation]:
        """The operations of functions and their control flow, but not those on single
        elements.
        """
        steps = [
            step
            for function in self.functions
            for step in steps_of(function.regions[0])
        ]
        return [operation for operation, _ in steps if operation is not None]

    @cached_property
    def device_of_value(self) -> Mapping[Value, str]:
        """The device of each value that the program places, or that is computed from
        values on a single device.
        """
        devices: dict[Value, str] = {}
        if not self.references:
            return devices
        for function in self.functions:
            for port in self.ports[function]:
                if port.kind == "argument" and port.device:
                    devices[port.value] = port.device
            # value -> the devices of all values that control flow passes on to it
            passed_on: dict[Value, set[str | None]] = {}
            for operation, pairs in steps_of(function.regions[0]):
                for source, target in pairs:
                    passed_on.setdefault(target, set()).add(devices.get(source))
                    devices.pop(target, None)
                    device = _only_one(passed_on[target])
                    if device:
                        devices[target] = device
                if operation is not None:
                    device = self._device_of_results(operation, devices)
                    if device:
                        devices |= dict.fromkeys(operation.results, device)
        return devices

    def _device_of_results(
        self, operation: Operation, devices: Mapping[Value, str]
    ) -> str | None:
        """Return the device of an operation's results: the one that it names, that of
        the global it loads, or that of all values it uses. None if that is unknown.
        """
        device = self._device_named_by(operation)
        if device is not None or operation.name in PASSES_ON:
            return device
        if operation.name == LOAD:
            name = (operation.attribute("global") or "").lstrip("@").strip('"')
            return self._device_of_global.get(name)
        if is_carrier(operation):
            return None
        uses = tensors_of(operation)
        return _only_one({devices[value] for value in uses if value in devices})

    def _device_named_by(self, operation: Operation) -> str | None:
        devices = (self._device(operation.attribute(name)) for name in _PLACED_BY)
        return next(filter(None, devices), None)

    @cached_property
    def _device_of_global(self) -> Mapping[str, str | None]:
        """The device that each global names, by its symbol."""
        return {
            operation.symbol: self._device_named_by(operation)
            for operation in self.module.body.operations
            if operation.symbol
        }

    def devices_at(self, operation: Operation) -> set[str]:
        """Return the devices of the values that an operation uses."""
        devices = self.device_of_value
        return {devices[value] for value in tensors_of(operation) if value in devices}


D = TypeVar("D", str, str | None)


def _only_one(devices: set[D]) -> D | None:
    if len(devices) == 1:
        return next(iter(devices))
    return None


def is_tensor(value: Value) -> bool:
    """Return whether a value is stored on a device."""
    return value.type.startswith(_TENSORS)


def tensors_of(operation: Operation) -> list[Value]:
    """Return the tensors that an operation and its regions use."""
    return [value for value in free_values(operation) if is_tensor(value)]


def is_carrier(operation: Operation) -> bool:
    """Return whether an operation only passes values on, so that their devices do not
    matter.
    """
    dialect = operation.name.partition(".")[0]
    return dialect in _CARRIERS or operation.name in _CARRIED


def steps_of(
    body: Region,
) -> Iterator[tuple[Operation | None, list[tuple[Value, Value]]]]:
    """Yield a function's operations in program order, those in control flow first, but
    not those on single elements.

    With each come the tensors (source, target) that it passes on: those of a barrier,
    the values of each branch, a loop's initial and final values. Before the body of a
    loop, the tensors that enter it come without an operation.
    """
    operations = [operation for block in body.blocks for operation in block.operations]
    for operation in operations:
        passed: list[tuple[Value, Value]] = []
        # a loop that does not run returns what it got
        if operation.name in ("scf.for", *PASSES_ON):
            passed += _pairs(operation.operands, operation.results)
        sources = operation.operands
        regions = []
        if operation.name.startswith("scf."):
            regions = operation.regions
        for region in [region for region in regions if region.blocks]:
            yield None, _pairs(sources, region.blocks[0].arguments)
            yield from steps_of(region)
            # the condition of a while loop hands its values to the body, too
            is_body = operation.name == "scf.while" and region is not regions[0]
            sources = terminator(region).operands
            if not is_body:
                passed += _pairs(sources, operation.results)
        yield operation, passed


def terminator(body: Region) -> Operation:
    """Return the last operation of a body."""
    return body.blocks[-1].operations[-1]


def _pairs(
    sources: Sequence[Value], targets: Sequence[Value]
) -> list[tuple[Value, Value]]:
    """Match values from the last on: bounds and conditions come before the values that
    control flow carries.
    """
    pairs = zip(reversed(sources), reversed(targets), strict=False)
    return [(source, target) for source, target in pairs if is_tensor(source)]
