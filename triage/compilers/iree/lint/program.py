"""A program as the lint rules see it: its tree, its target, and the device of each
value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import TypeVar

import yaml
from pydantic import TypeAdapter

from triage.compilers.iree.devices import (
    DeclaredDevices,
    devices_declared_by,
    devices_declared_in,
    devices_in,
)
from triage.mlir import Module, Operation, SourcePosition, Value
from triage.mlir.tree import Region, arguments_of, array_elements, entries, free_values

_ALIAS = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")
_TENSORS = ("tensor<", "!torch.vtensor<", "!hal.buffer_view", "!stream.resource")
_FOR, _WHILE = "scf.for", "scf.while"
LOOPS = (_FOR, _WHILE)


@dataclass(frozen=True, slots=True)
class LintWords:
    """The operations, attributes and types that lint rules know; words.yaml describes
    each.
    """

    affinity: str
    placed_by: tuple[str, ...]
    transfers: frozenset[str]
    carried: frozenset[str]
    updates: dict[str, int]
    passes_on: frozenset[str]
    loads: frozenset[str]
    stores: frozenset[str]


@cache
def lint_words() -> LintWords:
    """Load words.yaml."""
    text = files("triage.compilers.iree.lint").joinpath("words.yaml").read_text("utf-8")
    return TypeAdapter(LintWords).validate_python(yaml.safe_load(text))


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
    words: LintWords = field(default_factory=lint_words)

    @cached_property
    def devices_of_module(self) -> dict[str, str]:
        """The devices that the module declares itself."""
        return devices_declared_in(self.module)

    @cached_property
    def declared_devices(self) -> DeclaredDevices | None:
        """The devices that options and module declare; None if they mention none."""
        flags = devices_declared_by(self.options)
        if not flags.devices and not self.devices_of_module and flags.problem is None:
            return None
        return replace(flags, devices=flags.devices | self.devices_of_module)

    @cached_property
    def functions(self) -> list[Operation]:
        return self.module.functions()

    @cached_property
    def references(self) -> list[tuple[str, SourcePosition | None]]:
        """Every device reference in an attribute or a result type, in source order."""
        found: list[tuple[str, SourcePosition | None]] = []
        for operation in self.module.walk():
            arguments = zip(
                array_elements(operation.attribute("arg_attrs")),
                arguments_of(operation),
                strict=False,
            )
            texts = [
                (text, value.position or operation.position)
                for text, value in arguments
            ]
            named = {**operation.properties, **operation.attributes}
            texts += [
                (text, operation.position)
                for name, text in named.items()
                if name != "arg_attrs"
            ]
            texts += [(value.type, operation.position) for value in operation.results]
            found += [
                (device, position)
                for text, position in texts
                for device in self.devices_in(text)
            ]
        return found

    def devices_in(self, text: str) -> Iterator[str]:
        """Yield the devices in the text of an attribute or type, also behind
        aliases.
        """
        yield from devices_in(text)
        if "#" not in text:
            return
        for alias in _ALIAS.findall(text):
            yield from self.devices_in(self.module.aliases.get(alias, ""))

    def device(self, text: str | None) -> str | None:
        """Return the device that an attribute names; None unless exactly one."""
        return _only_one(set(self.devices_in(text or "")))

    @cached_property
    def ports(self) -> Mapping[Operation, Sequence[Port]]:
        """The arguments and the results of each function."""
        found: dict[Operation, list[Port]] = {
            function: [] for function in self.functions
        }
        for function in self.functions:
            end = _terminator(function.regions[0])
            sides = (
                ("argument", "arg_attrs", arguments_of(function)),
                ("result", "res_attrs", end.operands),
            )
            for kind, attribute, values in sides:
                texts = [
                    *array_elements(function.attribute(attribute)),
                    *[""] * len(values),
                ]
                for index, (value, text) in enumerate(zip(values, texts, strict=False)):
                    position = (
                        value.position if kind == "argument" else end.position
                    ) or function.position
                    device = self.device(entries(text[1:-1]).get(self.words.affinity))
                    found[function].append(Port(kind, index, value, device, position))
        return found

    @cached_property
    def operations(self) -> Sequence[Operation]:
        """The operations of functions and their control flow, but not those on single
        elements.
        """
        steps = (
            step
            for function in self.functions
            for step in steps_of(function.regions[0])
        )
        return [operation for operation, _ in steps if operation is not None]

    def uses(self, operation: Operation) -> list[Value]:
        """Return the tensors that an operation and its regions use."""
        return [value for value in free_values(operation) if is_tensor(value)]

    def only_carries(self, operation: Operation) -> bool:
        """Return whether an operation only passes values on, so that their devices do
        not matter.
        """
        return (
            operation.name in self.words.carried
            or operation.name.partition(".")[0] in self.words.carried
        )

    def device_named_by(self, operation: Operation) -> str | None:
        """Return the device that an operation's own attributes name, or None."""
        devices = (
            self.device(operation.attribute(name)) for name in self.words.placed_by
        )
        return next(filter(None, devices), None)

    @cached_property
    def device_of_value(self) -> Mapping[Value, str]:
        """The device of each value that the program places, or that is computed from
        values on a single device.
        """
        found: dict[Value, str] = {}
        if not self.references:
            return found
        for function in self.functions:
            for port in self.ports[function]:
                if port.kind == "argument" and port.device:
                    found[port.value] = port.device
            # value -> the devices of all values that control flow passes on to it
            passed_on: dict[Value, set[str | None]] = {}
            for operation, pairs in steps_of(function.regions[0]):
                for source, target in pairs:
                    devices = passed_on.setdefault(target, set())
                    devices.add(found.get(source))
                    found.pop(target, None)
                    device = _only_one(devices)
                    if device:
                        found[target] = device
                if operation is None:
                    continue
                device = self._device_of_results(operation, found)
                if device:
                    found |= dict.fromkeys(operation.results, device)
        return found

    def _device_of_results(
        self, operation: Operation, found: Mapping[Value, str]
    ) -> str | None:
        """Return the device of an operation's results: the one that it names, that of
        the global it loads, or that of all values it uses. None if that is unknown.
        """
        device = self.device_named_by(operation)
        if device is not None or operation.name in self.words.passes_on:
            return device
        if operation.name in self.words.loads:
            name = (operation.attribute("global") or "").lstrip("@").strip('"')
            device = self._device_of_global.get(name)
        if device is None and not self.only_carries(operation):
            uses = self.uses(operation)
            device = _only_one({found[value] for value in uses if value in found})
        return device

    @cached_property
    def _device_of_global(self) -> Mapping[str, str | None]:
        """The device that each global names, by its symbol."""
        return {
            operation.symbol: self.device_named_by(operation)
            for operation in self.module.body.operations
            if operation.symbol
        }

    @cached_property
    def devices_using(self) -> Mapping[Value, set[str]]:
        """For each value without a device, the devices of the operations with it."""
        found: dict[Value, set[str]] = {}
        for operation in self.operations:
            if not self.only_carries(operation):
                values = self.uses(operation)
                devices = {
                    self.device_of_value[value]
                    for value in (*values, *operation.results)
                    if value in self.device_of_value
                }
                for value in values:
                    if value not in self.device_of_value:
                        found.setdefault(value, set()).update(devices)
        return found


D = TypeVar("D", str, str | None)


def _only_one(devices: set[D]) -> D | None:
    if len(devices) == 1:
        return next(iter(devices))
    return None


def is_tensor(value: Value) -> bool:
    """Return whether a value is stored on a device."""
    return value.type.startswith(_TENSORS)


def is_control_flow(operation: Operation) -> bool:
    """Return whether an operation is structured control flow."""
    return operation.name.startswith("scf.")


def steps_of(
    body: Region,
) -> Iterator[tuple[Operation | None, list[tuple[Value, Value]]]]:
    """Yield a function's operations in program order, those in control flow first, but
    not those on single elements.

    With each come the tensors (source, target) that it passes on: those of a barrier,
    the values of each branch, a loop's initial and final values. Before the body of a
    loop, the tensors that enter it come without an operation.
    """
    for operation in (
        operation for block in body.blocks for operation in block.operations
    ):
        # A loop that does not run returns what it got.
        is_same = operation.name == _FOR or operation.name in lint_words().passes_on
        if is_same:
            passed = _pairs(operation.operands, operation.results)
        else:
            passed = []
        if is_control_flow(operation):
            regions = [region for region in operation.regions if region.blocks]
        else:
            regions = []
        for index, region in enumerate(regions):
            # The condition of a while loop hands its values to the body and to the
            # results.
            if index == 0:
                sources = operation.operands
            else:
                sources = _terminator(regions[0]).operands
            yield None, _pairs(sources, region.blocks[0].arguments)
            yield from steps_of(region)
            if index == 0 or operation.name != _WHILE:
                passed += _pairs(_terminator(region).operands, operation.results)
        yield operation, passed


def _terminator(body: Region) -> Operation:
    return body.blocks[-1].operations[-1]


def _pairs(
    sources: Sequence[Value], targets: Sequence[Value]
) -> list[tuple[Value, Value]]:
    """Match values from the last on: bounds and conditions come before the values that
    control flow carries.
    """
    pairs = zip(reversed(sources), reversed(targets), strict=False)
    return [(source, target) for source, target in pairs if is_tensor(source)]
