"""A program as rules see it: its tree, what it is compiled for, and which device each value is on as far as that is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from triage.compilers.placement import Declared, Placement
from triage.lint.flow import entering, is_tensor, leaving
from triage.mlir import Block, Module, Operation, SourcePosition, Value
from triage.mlir.tree import entries, free_values, split

_ALIAS = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")


@dataclass(frozen=True)
class Program:
    """module: of the input; options: of the command line, as far as they are known; backend, chip: None where nobody
    said. declared: None where nobody said a word of devices.
    """

    module: Module
    placement: Placement
    options: Sequence[str] = ()
    backend: str | None = None
    chip: str | None = None

    @cached_property
    def declared(self) -> Declared | None:
        """By options and by the module."""
        flags, own = self.placement.declared_by(self.options), self.placement.declared_in(self.module)
        if not flags.devices and not own.devices and flags.problem is None:
            return None
        return Declared(flags.devices | own.devices, flags.problem, flags.sole)

    @cached_property
    def functions(self) -> list[Operation]:
        """Those with a body."""
        return self.module.functions()

    @cached_property
    def references(self) -> list[tuple[str, SourcePosition | None]]:
        """Every device that is named in an operation's attributes or types, with where, in the order of the text."""
        return list(self._references())

    def _references(self) -> Iterator[tuple[str, SourcePosition | None]]:
        for one in self.module.walk():
            for named in (one.properties, one.attributes):
                for name, text in named.items():
                    if name in ("arg_attrs", "res_attrs"):
                        places = [value.place for value in arguments(one)] if name == "arg_attrs" else []
                        for index, part in enumerate(split(text.strip()[1:-1])):
                            place = places[index] if index < len(places) else one.place
                            yield from ((device, place or one.place) for device in self.devices_in(part))
                    else:
                        yield from ((device, one.place) for device in self.devices_in(text))
            for value in one.results:
                yield from ((device, one.place) for device in self.devices_in(value.type))

    def devices_in(self, text: str) -> Iterator[str]:
        """The devices that an attribute's or a type's text names, behind aliases as well."""
        yield from self.placement.devices_in(text)
        if self._aliases and "#" in text:
            for alias in _ALIAS.findall(text):
                yield from self._aliases.get(alias, ())

    @cached_property
    def _aliases(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, text in self.module.aliases.items():  # what an alias uses stands before it
            devices = [
                *self.placement.devices_in(text),
                *(one for alias in _ALIAS.findall(text) for one in found.get(alias, ())),
            ]
            if devices:
                found[name] = tuple(devices)
        return found

    def device(self, text: str | None) -> str | None:
        """The one device that an attribute names; None where it names none or several."""
        names = list(dict.fromkeys(self.devices_in(text))) if text else []
        return names[0] if len(names) == 1 else None

    def interface(self, function: Operation, which: str) -> list[str | None]:
        """For each argument (`arg_attrs`) or result (`res_attrs`) the device that its attribute names."""
        text = (function.attribute(which) or "").strip()
        name = self.placement.words.interface
        return [self.device(entries(part.strip()[1:-1]).get(name)) for part in split(text[1:-1])]

    @cached_property
    def on(self) -> Mapping[Value, str]:
        """The device of each value that the program places, or that is computed from values on one device alone."""
        return _Placing(self).found if self.references else {}

    def uses(self, operation: Operation) -> list[Value]:
        """The tensors an operation needs, those that its regions capture included."""
        if operation not in self._uses:
            self._uses[operation] = [value for value in free_values(operation) if is_tensor(value)]
        return self._uses[operation]

    @cached_property
    def _uses(self) -> dict[Operation, list[Value]]:
        return {}

    def carries(self, operation: Operation) -> bool:
        """Whether an operation only passes values on, so that it does not matter where these are."""
        carried = self.placement.words.carried
        return operation.name in carried or operation.name.partition(".")[0] in carried


class _Placing:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.words = program.placement.words
        self.found: dict[Value, str] = {}
        self.globals = {one.symbol: self._said(one) for one in program.module.body.operations if one.symbol}
        for function in program.functions:
            given = program.interface(function, "arg_attrs")
            for value, device in zip(arguments(function), given, strict=False):
                self._set(value, device)
            for block in function.regions[0].blocks:
                self._block(block)

    def _set(self, value: Value, device: str | None) -> None:
        if device is not None:
            self.found[value] = device

    def _block(self, block: Block) -> None:
        for one in block.operations:
            for index, region in enumerate(one.regions):
                for source, target in entering(one, index):
                    self._set(target, self.found.get(source))
                for inner in region.blocks:
                    self._block(inner)
            self._results(one)

    def _said(self, one: Operation) -> str | None:
        """The device that an operation's own attributes name."""
        return next((found for name in self.words.placed_by if (found := self.program.device(one.attribute(name)))), None)

    def _results(self, one: Operation) -> None:
        said = self._said(one)
        if said is None and one.name in self.words.loads:
            said = self.globals.get((one.attribute("global") or "").lstrip("@").strip('"'))
        if said is None and (passed := list(leaving(one))):
            for value in one.results:
                devices = {self.found.get(source) for source, target in passed if target is value}
                self._set(value, devices.pop() if len(devices) == 1 else None)
            return
        if said is None and one.name in self.words.passes_on and one.operands:
            for source, target in zip(one.operands, one.results, strict=False):
                self._set(target, self.found.get(source))
            return
        if said is None and not self.program.carries(one):
            devices = {self.found[value] for value in self.program.uses(one) if value in self.found}
            said = devices.pop() if len(devices) == 1 else None
        for value in one.results:
            self._set(value, said)


def arguments(function: Operation) -> list[Value]:
    """A function's arguments; none where it has no body."""
    return function.regions[0].blocks[0].arguments if function.regions and function.regions[0].blocks else []
