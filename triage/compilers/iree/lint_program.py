"""A program as the lint rules see it: its tree, its options, and the device of each
value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from triage.compilers.base import ProgramDevice
from triage.compilers.iree.targets import (
    device_order,
    devices_declared_by,
    devices_in,
)
from triage.mlir import Module, Operation, SourcePosition, Value
from triage.mlir.tree import (
    Region,
    arguments_of,
    array_elements,
    free_values,
    parse_entries,
)

TRANSFER = "flow.tensor.transfer"
# operations whose results are their operands
PASSES_ON = ("util.optimization_barrier", "flow.tensor.barrier", "flow.tensor.clone")
LOAD = "util.global.load"
STORE = "util.global.store"
_TARGETS = "hal.device.targets"
_AFFINITY = "iree.abi.affinity"  # of an argument or a result
_DEVICE_ATTRIBUTES = ("stream.affinity", "affinity", "target")  # of operations
# dialects and operations that only pass values on
_CARRIERS = ("func", "scf", "cf", "util", "hal", "builtin", "stream", "vm")
_CARRIED = (TRANSFER, "flow.return", *PASSES_ON)
_TENSORS = ("tensor<", "!torch.vtensor<", "!hal.buffer_view", "!stream.resource")

Links = Sequence[tuple[Value, Value]]
"""Pairs of a tensor and one that it is passed on to."""


@dataclass(frozen=True)
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
    def functions(self) -> list[Operation]:
        return self.module.functions()

    @cached_property
    def references(self) -> list[tuple[str, SourcePosition | None]]:
        """Every device reference in an attribute or a result type, in source order."""
        references: list[tuple[str, SourcePosition | None]] = []
        for operation in self.module.walk():
            named = {**operation.properties, **operation.attributes}
            of_arguments = array_elements(named.pop("arg_attrs", None))
            positions = [value.position for value in arguments_of(operation)]
            texts = [*zip(of_arguments, positions, strict=False)]
            types = [value.type for value in operation.results]
            texts += [(text, operation.position) for text in (*named.values(), *types)]
            references += [
                (name, position)
                for text, position in texts
                for name in devices_in(text)
            ]
        return references

    @cached_property
    def devices_of_module(self) -> dict[str, str]:
        """The devices that the module declares itself, and what declares them."""
        declared = {
            operation.symbol: f"util.global @{operation.symbol}"
            for operation in self.module.body.operations
            if operation.name == "util.global"
            and "!hal.device" in (operation.attribute("type") or "")
            and operation.symbol
        }
        if self.module.root.attribute(_TARGETS):  # which devices is not read
            declared |= dict.fromkeys((name for name, _ in self.references), _TARGETS)
        return declared

    @cached_property
    def devices(self) -> tuple[ProgramDevice, ...]:
        """All devices that are declared or referenced, declared ones first."""
        declared = devices_declared_by(self.options) | self.devices_of_module
        counts = Counter(name for name, _ in self.references)
        first = dict(reversed(self.references))
        return tuple(
            ProgramDevice(
                name, declared.get(name), counts[name], position=first.get(name)
            )
            for name in dict.fromkeys([*declared, *sorted(counts, key=device_order)])
        )

    @property
    def first_device(self) -> str:
        """The device of what has no affinity."""
        declared = (device.name for device in self.devices if device.declared)
        return next(declared, "__device_0")

    def ports_of(self, function: Operation) -> Iterator[Port]:
        """Yield the arguments and the results of a function."""
        end = terminator(function.regions[0])
        for kind, attribute, values in (
            ("argument", "arg_attrs", arguments_of(function)),
            ("result", "res_attrs", end.operands),
        ):
            texts = array_elements(function.attribute(attribute)) or [""] * len(values)
            for index, (value, text) in enumerate(zip(values, texts, strict=False)):
                device = _device_in(parse_entries(text[1:-1]).get(_AFFINITY))
                position = value.position if kind == "argument" else end.position
                yield Port(kind, index, value, device, position or function.position)

    @cached_property
    def operations(self) -> Sequence[Operation]:
        """The operations of functions and their control flow, but not those on single
        elements, that do more than pass values on.
        """
        return [
            operation
            for function in self.functions
            for operation, _ in steps_of(function.regions[0])
            if not _only_passes_values(operation)
        ]

    @cached_property
    def device_of_value(self) -> Mapping[Value, str]:
        """The device of each value that the program places, or that is computed from
        values on a single device.
        """
        of_globals = {
            operation.symbol: _device_named_by(operation)
            for operation in self.module.body.operations
        }
        devices: dict[Value, str | None] = {}
        for function in self.functions:
            ports = self.ports_of(function)
            devices |= {
                port.value: port.device for port in ports if port.kind == "argument"
            }
            # value -> the devices of all values that control flow passes on to it
            passed_on = defaultdict[Value, set[str | None]](set)
            for operation, links in steps_of(function.regions[0]):
                for source, target in links:
                    passed_on[target].add(devices.get(source))
                    devices[target] = _only_one(passed_on[target])
                device = _device_named_by(operation)
                if device is None and operation.name == LOAD:
                    name = (operation.attribute("global") or "").lstrip("@")
                    device = of_globals.get(name.strip('"'))
                elif device is None and not _only_passes_values(operation):
                    device = _only_one(devices_at(operation, devices))
                if device:
                    devices |= dict.fromkeys(operation.results, device)
        return {value: device for value, device in devices.items() if device}


def devices_at(operation: Operation, devices: Mapping[Value, str | None]) -> set[str]:
    """Return the devices of the values that an operation uses."""
    return set(filter(None, map(devices.get, tensors_of(operation))))


def _device_named_by(operation: Operation) -> str | None:
    named = (_device_in(operation.attribute(name)) for name in _DEVICE_ATTRIBUTES)
    return next(filter(None, named), None)


def _device_in(text: str | None) -> str | None:
    """Return the device that an attribute names; None unless exactly one."""
    return _only_one(set(devices_in(text or "")))


def _only_one(devices: Collection[str | None]) -> str | None:
    if len(devices) == 1:
        return next(iter(devices))
    return None


def is_tensor(value: Value) -> bool:
    """Return whether a value is stored on a device."""
    return value.type.startswith(_TENSORS)


def tensors_of(operation: Operation) -> list[Value]:
    """Return the tensors that an operation and its regions use."""
    return [value for value in free_values(operation) if is_tensor(value)]


def _only_passes_values(operation: Operation) -> bool:
    dialect = operation.name.partition(".")[0]
    return dialect in _CARRIERS or operation.name in _CARRIED


def steps_of(body: Region) -> Iterator[tuple[Operation, Links]]:
    """Yield a function's operations in program order, those in control flow first, but
    not those on single elements.

    With each come the tensors (source, target) that it passes on: those of a barrier,
    the values of each branch, a loop's initial and final values. The tensors that enter
    the body of a loop come before it with a made-up `scf.enter`.
    """
    for operation in [inner for block in body.blocks for inner in block.operations]:
        links: list[tuple[Value, Value]] = []
        # a loop that does not run returns what it got
        if operation.name in ("scf.for", *PASSES_ON):
            links += _links(operation.operands, operation.results)
        sources = operation.operands
        regions = [region for region in operation.regions if region.blocks]
        if not operation.name.startswith("scf."):
            regions = []
        for region in regions:
            yield Operation("scf.enter"), _links(sources, region.blocks[0].arguments)
            yield from steps_of(region)
            sources = terminator(region).operands
            # the condition of a while loop hands its values to the body, too
            is_first = region is operation.regions[0]
            if is_first or operation.name != "scf.while":
                links += _links(sources, operation.results)
        yield operation, links


def terminator(body: Region) -> Operation:
    """Return the last operation of a body."""
    return body.blocks[-1].operations[-1]


def _links(sources: Sequence[Value], targets: Sequence[Value]) -> Links:
    """Match tensors from the last value on: bounds and conditions come before the
    values that control flow carries.
    """
    pairs = zip(reversed(sources), reversed(targets), strict=False)
    return [(source, target) for source, target in pairs if is_tensor(source)]
