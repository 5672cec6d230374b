"""A program as the lint rules see it: its tree, its target, and the device of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import yaml
from pydantic import TypeAdapter

from triage.compilers.iree.devices import DeclaredDevices, declared_by, declared_in, devices_in
from triage.mlir import Block, Module, Operation, SourcePosition, Value
from triage.mlir.tree import arguments_of, array_elements, entries, free_values

_ALIAS = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")
_TENSORS = ("tensor<", "!torch.vtensor<", "!hal.buffer_view", "!stream.resource")
_FOR, _WHILE, _IF = "scf.for", "scf.while", "scf.if"
_BOUNDS = 3  # lower bound, upper bound and step come before the values that a loop carries


@dataclass(frozen=True, slots=True)
class PlacementWords:
    """The operations and attributes that decide about devices; words.yaml describes each."""

    affinity: str
    placed_by: tuple[str, ...]
    transfers: frozenset[str]
    barrier: str
    carried: frozenset[str]
    updates: dict[str, int]
    passes_on: frozenset[str]
    loads: frozenset[str]
    stores: frozenset[str]
    constants: frozenset[str]
    attention: frozenset[str]
    tiled: frozenset[str]
    demoted: dict[str, str]


@dataclass(frozen=True, slots=True)
class MissingTypes:
    """Element types that a backend lacks; words.yaml describes each field."""

    backends: frozenset[str]
    types: frozenset[str]
    why: str
    chips: re.Pattern[str] | None = None
    interface: bool = False
    unless: str | None = None


@cache
def _data() -> dict[str, Any]:
    return dict(yaml.safe_load(files("triage.compilers.iree.lint").joinpath("words.yaml").read_text("utf-8")))


@cache
def placement_words() -> PlacementWords:
    """Load the words."""
    return TypeAdapter(PlacementWords).validate_python(_data()["words"])


@cache
def missing_types() -> tuple[MissingTypes, ...]:
    """Load the types that backends lack."""
    return TypeAdapter(tuple[MissingTypes, ...]).validate_python(_data()["missing_types"])


@dataclass(frozen=True)
class LintProgram:
    """A module with the options it is compiled with, its backend and its chip (None if unknown)."""

    module: Module
    options: Sequence[str] = ()
    backend: str | None = None
    chip: str | None = None

    @property
    def words(self) -> PlacementWords:
        return placement_words()

    @cached_property
    def declared(self) -> DeclaredDevices | None:
        """The devices that options and module declare; None if neither mentions devices."""
        flags, own = declared_by(self.options), declared_in(self.module)
        if not flags.devices and not own.devices and flags.problem is None:
            return None
        return DeclaredDevices(flags.devices | own.devices, flags.problem, flags.sole)

    @cached_property
    def functions(self) -> list[Operation]:
        return self.module.functions()

    @cached_property
    def references(self) -> list[tuple[str, SourcePosition | None]]:
        """Every device reference in an attribute or a result type, in source order."""
        return list(self._references())

    def _references(self) -> Iterator[tuple[str, SourcePosition | None]]:
        for operation in self.module.walk():
            for named in (operation.properties, operation.attributes):
                for name, text in named.items():
                    if name in ("arg_attrs", "res_attrs"):
                        positions = [value.position for value in arguments_of(operation)] if name == "arg_attrs" else []
                        for index, part in enumerate(array_elements(text)):
                            position = positions[index] if index < len(positions) else None
                            yield from ((device, position or operation.position) for device in self.devices_in(part))
                    else:
                        yield from ((device, operation.position) for device in self.devices_in(text))
            for value in operation.results:
                yield from ((device, operation.position) for device in self.devices_in(value.type))

    def devices_in(self, text: str) -> Iterator[str]:
        """Yield the devices in the text of an attribute or type, also behind aliases."""
        yield from devices_in(text)
        if self._aliases and "#" in text:
            for alias in _ALIAS.findall(text):
                yield from self._aliases.get(alias, ())

    @cached_property
    def _aliases(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, text in self.module.aliases.items():  # an alias is defined before its uses
            nested = (device for alias in _ALIAS.findall(text) for device in found.get(alias, ()))
            if devices := (*devices_in(text), *nested):
                found[name] = devices
        return found

    def device(self, text: str | None) -> str | None:
        """Return the device that an attribute names; None for none or several."""
        names = list(dict.fromkeys(self.devices_in(text))) if text else []
        return names[0] if len(names) == 1 else None

    def affinities(self, function: Operation, side: str) -> list[str | None]:
        """Return the device of each argument (`arg_attrs`) or result (`res_attrs`) with attributes."""
        name = self.words.affinity
        return [self.device(entries(part[1:-1]).get(name)) for part in array_elements(function.attribute(side))]

    @cached_property
    def placed(self) -> Mapping[Value, str]:
        """The device of each value that the program places, or that is computed from values on a single device."""
        return _Placing(self).found if self.references else {}

    def uses(self, operation: Operation) -> list[Value]:
        """Return the tensors that an operation and its regions use."""
        if operation not in self._uses:
            self._uses[operation] = [value for value in free_values(operation) if is_tensor(value)]
        return self._uses[operation]

    @cached_property
    def _uses(self) -> dict[Operation, list[Value]]:
        return {}

    def only_carries(self, operation: Operation) -> bool:
        """Whether an operation only passes values on, so that their devices do not matter."""
        return operation.name in self.words.carried or operation.name.partition(".")[0] in self.words.carried


class _Placing:
    """Walks a program and assigns devices to values."""

    def __init__(self, program: LintProgram) -> None:
        self.program = program
        self.words = program.words
        self.found: dict[Value, str] = {}
        self.globals = {
            operation.symbol: self._own_device(operation) for operation in program.module.body.operations if operation.symbol
        }
        for function in program.functions:
            for value, device in zip(arguments_of(function), program.affinities(function, "arg_attrs"), strict=False):
                self._set(value, device)
            for block in function.regions[0].blocks:
                self._block(block)

    def _set(self, value: Value, device: str | None) -> None:
        if device is not None:
            self.found[value] = device

    def _block(self, block: Block) -> None:
        for operation in block.operations:
            for index, region in enumerate(operation.regions):
                for source, target in entering(operation, index):
                    self._set(target, self.found.get(source))
                for inner in region.blocks:
                    self._block(inner)
            self._results(operation)

    def _own_device(self, operation: Operation) -> str | None:
        """Return the device that an operation's attributes name."""
        devices = (self.program.device(operation.attribute(name)) for name in self.words.placed_by)
        return next((device for device in devices if device), None)

    def _results(self, operation: Operation) -> None:
        device = self._own_device(operation)
        if device is None and operation.name in self.words.loads:
            device = self.globals.get((operation.attribute("global") or "").lstrip("@").strip('"'))
        if device is None and (passed := list(leaving(operation))):
            for value in operation.results:
                devices = {self.found.get(source) for source, target in passed if target is value}
                self._set(value, devices.pop() if len(devices) == 1 else None)
            return
        if device is None and operation.name in self.words.passes_on and operation.operands:
            for source, target in zip(operation.operands, operation.results, strict=False):
                self._set(target, self.found.get(source))
            return
        if device is None and not self.program.only_carries(operation):
            operands = {self.found[value] for value in self.program.uses(operation) if value in self.found}
            device = operands.pop() if len(operands) == 1 else None
        for value in operation.results:
            self._set(value, device)


def is_tensor(value: Value) -> bool:
    """Whether a value is stored on a device."""
    return value.type.startswith(_TENSORS)


def is_loop(operation: Operation) -> bool:
    """Whether an operation is a loop."""
    return operation.name in (_FOR, _WHILE)


def is_control_flow(operation: Operation) -> bool:
    """Whether an operation is structured control flow."""
    return operation.name.startswith("scf.")


def entering(operation: Operation, region: int) -> Iterator[tuple[Value, Value]]:
    """Yield (source, argument) for the arguments of a region, in the first iteration of a loop.

    Regions must be walked in order, because a later region may take values of an earlier one.
    """
    blocks = operation.regions[region].blocks
    if not blocks:
        return
    arguments = blocks[0].arguments
    if operation.name == _FOR:
        yield from zip(operation.operands[_BOUNDS:], arguments[1:], strict=False)
    elif operation.name == _WHILE:
        sources = operation.operands if region == 0 else _condition_values(operation)
        yield from zip(sources, arguments, strict=False)


def leaving(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield (source, result): for a branch the values of each side, for a loop its initial and final values."""
    if operation.name == _FOR:
        yield from zip(operation.operands[_BOUNDS:], operation.results, strict=False)
        yield from zip(_yielded(operation, 0), operation.results, strict=False)
    elif operation.name == _WHILE:
        yield from zip(_condition_values(operation), operation.results, strict=False)
    elif operation.name == _IF:
        for region in range(len(operation.regions)):
            yield from zip(_yielded(operation, region), operation.results, strict=False)


def _yielded(operation: Operation, region: int) -> list[Value]:
    blocks = operation.regions[region].blocks
    return blocks[0].operations[-1].operands if blocks and blocks[0].operations else []


def _condition_values(operation: Operation) -> list[Value]:
    """Return the values that a while loop's condition passes to its body and its results."""
    return _yielded(operation, 0)[1:]
