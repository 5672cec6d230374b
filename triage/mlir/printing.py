"""Print a tree in generic form. The text is canonical: values and blocks are numbered in order, locations are omitted, and
only used aliases are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from triage.mlir.tree import Block, Module, Operation, Region, Value, entries_text

_ALIAS = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")


def print_module(module: Module) -> str:
    """Return the module's text: one operation per line, regions indented by two spaces."""
    printer = _Printer()
    body = "\n".join(printer.operation(module.root, 0))
    prelude = _prelude(body, module.aliases)
    return "\n".join([*prelude, body, *([module.trailer] if module.trailer else []), ""])


def _prelude(body: str, aliases: Mapping[str, str]) -> list[str]:
    """Return the aliases that the body uses, directly or through others, in their order."""
    if not aliases:
        return []
    used: set[str] = set()
    waiting = [body]
    while waiting:
        for name in set(_ALIAS.findall(waiting.pop())) & aliases.keys() - used:
            used.add(name)
            waiting.append(aliases[name])
    return [f"{name} = {text}" for name, text in aliases.items() if name in used]


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.labels: dict[Block, str] = {}
        self.results = self.arguments = 0

    def operation(self, operation: Operation, depth: int) -> Iterator[str]:
        # The operands come first: they were named before.
        operands = ", ".join(self.names[value] for value in operation.operands)
        head = f'{"  " * depth}{self._results(operation.results)}"{operation.name}"({operands})'
        if operation.successors:
            head += f"[{', '.join(map(self._label, operation.successors))}]"
        if operation.properties:
            head += f" <{{{entries_text(operation.properties)}}}>"
        tail = f" {{{entries_text(operation.attributes)}}}" if operation.attributes else ""
        types = ", ".join(value.type for value in operation.results)
        result = types if len(operation.results) == 1 and not types.startswith("(") else f"({types})"
        tail += f" : ({', '.join(value.type for value in operation.operands)}) -> {result}"
        if not operation.regions:
            yield head + tail
            return
        yield head + " ({"
        for index, region in enumerate(operation.regions):
            if index:
                yield f"{'  ' * depth}}}, {{"
            yield from self._region(region, depth)
        yield f"{'  ' * depth}}}){tail}"

    def _results(self, values: list[Value]) -> str:
        if not values:
            return ""
        if values[0] not in self.names:
            name = f"%{self.results}"
            self.results += 1
            self.names |= {value: f"{name}#{index}" if len(values) > 1 else name for index, value in enumerate(values)}
        name = self.names[values[0]].partition("#")[0]
        return f"{name}:{len(values)} = " if len(values) > 1 else f"{name} = "

    def _region(self, region: Region, depth: int) -> Iterator[str]:
        if len(region.blocks) > 1:
            self._name_ahead(region)
        for index, block in enumerate(region.blocks):
            if index or block.arguments:
                arguments = ", ".join(f"{self._argument(value)}: {value.type}" for value in block.arguments)
                yield f"{'  ' * depth}{self._label(block)}{f'({arguments})' if arguments else ''}:"
            for operation in block.operations:
                yield from self.operation(operation, depth + 1)

    def _name_ahead(self, region: Region) -> None:
        """Name all values before printing: with several blocks a value may be used above its definition."""
        for block in region.blocks:
            self._label(block)
            for value in block.arguments:
                self._argument(value)
            for operation in block.operations:
                self._results(operation.results)

    def _argument(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = f"%arg{self.arguments}"
            self.arguments += 1
        return self.names[value]

    def _label(self, block: Block) -> str:
        return self.labels.setdefault(block, f"^bb{len(self.labels)}")
