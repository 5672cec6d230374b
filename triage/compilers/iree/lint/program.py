"""A program as the lint rules see it: its tree, its target, and the device of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import yaml
from pydantic import TypeAdapter

from triage.compilers.iree.devices import DeclaredDevices, declared_by, declared_in, devices_in
from triage.mlir import Block, Module, Operation, SourcePosition, Value
from triage.mlir.tree import arguments_of, array_elements, entries, free_values

_ALIAS = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")
_TENSORS = ("tensor<", "!torch.vtensor<", "!hal.buffer_view", "!stream.resource")
_FOR, _WHILE = "scf.for", "scf.while"
LOOPS = (_FOR, _WHILE)


@dataclass(frozen=True, slots=True)
class MissingTypes:
    """Element types that a backend lacks; words.yaml describes each field."""

    backends: frozenset[str]
    types: frozenset[str]
    why: str
    chips: re.Pattern[str] | None = None
    interface: bool = False
    unless: str | None = None


@dataclass(frozen=True, slots=True)
class LintWords:
    """The operations, attributes and types that lint rules know; words.yaml describes each."""

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
    missing_types: tuple[MissingTypes, ...]


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
    """A module with the options it is compiled with, its backend and its chip (None if unknown)."""

    module: Module
    options: Sequence[str] = ()
    backend: str | None = None
    chip: str | None = None

    @property
    def words(self) -> LintWords:
        return lint_words()

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
        for alias in _ALIAS.findall(text) if "#" in text else ():
            yield from self.devices_in(self.module.aliases.get(alias, ""))

    def device(self, text: str | None) -> str | None:
        """Return the device that an attribute names; None for none or several."""
        names = list(dict.fromkeys(self.devices_in(text))) if text else []
        return names[0] if len(names) == 1 else None

    @cached_property
    def ports(self) -> Mapping[Operation, Sequence[Port]]:
        """The arguments and the results of each function."""
        found: dict[Operation, list[Port]] = {}
        for function in self.functions:
            end = returned_by(function)
            sides = (("argument", "arg_attrs", arguments_of(function)), ("result", "res_attrs", end.operands))
            for kind, attribute, values in sides:
                texts = [*array_elements(function.attribute(attribute)), *[""] * len(values)]
                for index, (value, text) in enumerate(zip(values, texts, strict=False)):
                    position = (value.position if kind == "argument" else end.position) or function.position
                    device = self.device(entries(text[1:-1]).get(self.words.affinity))
                    found.setdefault(function, []).append(Port(kind, index, value, device, position))
        return found

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

    @cached_property
    def operations(self) -> Sequence[Operation]:
        """The operations of functions and their control flow, but not those on single elements."""
        steps = (step for function in self.functions for step in steps_of(function))
        return [operation for operation, _ in steps if operation is not None]

    @cached_property
    def used_on(self) -> Mapping[Value, set[str]]:
        """Value without a device -> the devices of the operations that use it."""
        found: dict[Value, set[str]] = {}
        for operation in self.operations:
            if not self.only_carries(operation):
                values = self.uses(operation)
                devices = {self.placed[value] for value in (*values, *operation.results) if value in self.placed}
                for value in values:
                    if value not in self.placed:
                        found.setdefault(value, set()).update(devices)
        return found

    def only_carries(self, operation: Operation) -> bool:
        """Whether an operation only passes values on, so that their devices do not matter."""
        return operation.name in self.words.carried or operation.name.partition(".")[0] in self.words.carried


class _Placing:
    """Assigns devices to values, in program order."""

    def __init__(self, program: LintProgram) -> None:
        self.program = program
        self.words = program.words
        self.found: dict[Value, str] = {}
        self.globals = {
            operation.symbol: self._own_device(operation) for operation in program.module.body.operations if operation.symbol
        }
        for function in program.functions:
            for port in program.ports.get(function, ()):
                if port.kind == "argument":
                    self._set([port.value], port.device)
            passed_on: dict[Value, set[str | None]] = {}
            for operation, pairs in steps_of(function):
                for source, target in pairs:
                    devices = passed_on.setdefault(target, set())
                    devices.add(self.found.get(source))
                    self.found.pop(target, None)
                    self._set([target], next(iter(devices)) if len(devices) == 1 else None)
                if operation is not None:
                    self._results(operation)

    def _set(self, values: Sequence[Value], device: str | None) -> None:
        if device is not None:
            self.found |= dict.fromkeys(values, device)

    def _own_device(self, operation: Operation) -> str | None:
        """Return the device that an operation's attributes name."""
        devices = (self.program.device(operation.attribute(name)) for name in self.words.placed_by)
        return next((device for device in devices if device), None)

    def _results(self, operation: Operation) -> None:
        device = self._own_device(operation)
        if device is None and operation.name in self.words.loads:
            device = self.globals.get((operation.attribute("global") or "").lstrip("@").strip('"'))
        if device is None and operation.name in self.words.passes_on:
            for source, target in zip(operation.operands, operation.results, strict=False):
                self._set([target], self.found.get(source))
        elif device is None and not self.program.only_carries(operation):
            operands = {self.found[value] for value in self.program.uses(operation) if value in self.found}
            device = operands.pop() if len(operands) == 1 else None
        self._set(operation.results, device)


def is_tensor(value: Value) -> bool:
    """Whether a value is stored on a device."""
    return value.type.startswith(_TENSORS)


def is_control_flow(operation: Operation) -> bool:
    """Whether an operation is structured control flow."""
    return operation.name.startswith("scf.")


def returned_by(function: Operation) -> Operation:
    """The operation that ends a function."""
    return function.regions[0].blocks[-1].operations[-1]


Steps = Iterator[tuple[Operation | None, list[tuple[Value, Value]]]]


def steps_of(function: Operation) -> Steps:
    """Yield a function's operations in program order, those in control flow first, but not those on single elements.

    With each come the tensors (source, target) that it passes on: the values of each branch, and a loop's initial and final
    values. Before the body of a loop, the tensors that enter it come without an operation.
    """
    for block in function.regions[0].blocks:
        yield from _steps(block)


def _steps(block: Block) -> Steps:
    for operation in block.operations:
        passed = _pairs(operation.operands, operation.results) if operation.name == _FOR else []
        regions = [region.blocks[0] for region in operation.regions if region.blocks] if is_control_flow(operation) else []
        for index, inner in enumerate(regions):
            # The condition of a while loop hands its values to the body and to the results.
            sources = operation.operands if index == 0 else regions[0].operations[-1].operands
            yield None, _pairs(sources, inner.arguments)
            yield from _steps(inner)
            if index == 0 or operation.name != _WHILE:
                passed += _pairs(inner.operations[-1].operands, operation.results)
        yield operation, passed


def _pairs(sources: Sequence[Value], targets: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Match values from the last on: bounds and conditions come before the values that control flow carries."""
    pairs = zip(reversed(sources), reversed(targets), strict=False)
    return [(source, target) for source, target in pairs if is_tensor(source)]
