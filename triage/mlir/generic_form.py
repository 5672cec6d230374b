"""Parse and print the generic form of MLIR, as `mlir-opt --mlir-print-op-generic` prints it: one operation a line.

Printed text is canonical: values and blocks are numbered in order, locations are omitted, and only used aliases are printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from triage.mlir.tree import (
    Block,
    Module,
    Operation,
    Region,
    SourcePosition,
    UnbalancedError,
    Value,
    closing,
    entries,
    entries_text,
    split,
)

OPERATION = re.compile(r'\s*(?:((?:%[\w$.:-]+(?:,\s*)?)+)\s*=\s*)?"([^"]+)"\(')
"""The beginning of an operation: its results and its name."""

_ALIAS = re.compile(r"([#!][\w$.-]+) = (.*)")
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d{1,9}))?")
_LABEL = re.compile(r"\s*(\^[\w$.-]+)(?=[(:])")
_POSITION = re.compile(r'"([^"]*)":(\d{1,9}):(\d{1,9})')
_LOCATION_ALIAS = re.compile(r"#loc\d*")
_ALIAS_USE = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")
_DEEPEST = 100  # regions inside each other, so that functions that follow them recursively stay below Python's limit


class UnparsableError(ValueError):
    """The text is not in the generic form; `line` is the line of the error, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def parse_module(text: str) -> Module:
    """Parse a module in generic form, with or without locations. Raises UnparsableError for anything else."""
    reader, lines = _ModuleReader(), text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("{-#") and not reader.open:  # the resource section
            return reader.module(number, "\n".join(lines[number - 1 :]).strip())
        try:
            reader.line(line)
        except UnbalancedError as error:
            raise UnparsableError("unclosed bracket", number) from error
        except UnparsableError as error:
            raise UnparsableError(str(error).partition(": ")[2], number) from error
    return reader.module(len(lines), "")


def _error(message: str) -> UnparsableError:
    return UnparsableError(message, 0)  # `parse_module` knows the line


@dataclass(eq=False, slots=True)
class _Open:
    """An operation whose regions are being read. names: of its results."""

    operation: Operation
    names: str
    blocks: dict[str, Block] = field(default_factory=dict)
    """The blocks of the current region by label, also those that are only referred to so far."""


class _ModuleReader:
    def __init__(self) -> None:
        self.root: Operation | None = None
        self.open: list[_Open] = []
        self.aliases: dict[str, str] = {}
        self.values: dict[str, Value] = {}
        self.undefined: dict[str, Value] = {}  # used above their definition, which control flow allows
        self.located: list[tuple[Operation | Value, str]] = []

    def module(self, line: int, trailer: str) -> Module:
        """Return the module after its last line."""
        if self.open:
            raise UnparsableError("unclosed region", line)
        if self.undefined:
            raise UnparsableError(f"{next(iter(self.undefined))} is not defined", line)
        root = self.root
        if root is None or root.name != "builtin.module" or len(root.regions) != 1 or len(root.regions[0].blocks) > 1:
            raise UnparsableError("the outermost operation is not a module", 1)
        root.regions[0].blocks = root.regions[0].blocks or [Block()]  # an empty module's block is not printed
        known: dict[str, SourcePosition | None] = {}
        for located, location in self.located:  # their aliases may follow the module
            if location not in known:
                known[location] = self._position(location, 0)
            located.position = known[location]
        aliases = {name: value for name, value in self.aliases.items() if not value.startswith("loc(")}
        return Module(root, aliases, trailer)

    def line(self, text: str) -> None:
        """Read the next line, without its line break."""
        stripped = text.strip()
        if head := OPERATION.match(text):
            self._begin_operation(head, text)
        elif stripped.startswith("})"):
            self._end_region()
            ended = self.open.pop()
            self._finish(ended.operation, ended.names, stripped[2:].strip())
        elif stripped == "}, {":
            self._end_region()
            self.open[-1].operation.regions.append(Region())
        elif stripped.startswith("^"):
            self._begin_block(text)
        elif not self.open and (alias := _ALIAS.fullmatch(stripped)):
            self.aliases[alias[1]] = alias[2]
        elif stripped and not stripped.startswith("//"):
            raise _error("expected an operation in generic form")

    def _begin_operation(self, head: re.Match[str], text: str) -> None:
        if not self.open and self.root:
            raise _error("unexpected text after the module")
        end = closing(text, head.end() - 1)
        names = split(text[head.end() : end - 1])
        operands = [self.values.get(name) or self.undefined.setdefault(name, Value("")) for name in names]
        operation, rest = Operation(head[2], operands=operands), text[end:].strip()
        if rest.startswith("["):
            end = closing(rest, 0)
            if not self.open:
                raise _error("a module has no successors")
            blocks = self.open[-1].blocks
            operation.successors = [blocks.setdefault(name, Block()) for name in split(rest[1 : end - 1])]
            rest = rest[end:].strip()
        if rest.startswith("<{"):
            end = closing(rest, 0)
            if not rest[:end].endswith("}>"):
                raise _error(f"expected }}> after the properties of {operation.name}")
            operation.properties = entries(rest[2 : end - 2])
            rest = rest[end:].strip()
        if not self.open:
            self.root = operation
        else:
            region = self.open[-1].operation.regions[-1]
            region.blocks = region.blocks or [Block()]
            region.blocks[-1].operations.append(operation)
        if rest != "({":
            self._finish(operation, head[1] or "", rest)
        elif len(self.open) == _DEEPEST:
            raise _error("regions nested too deeply")
        else:
            operation.regions.append(Region())
            self.open.append(_Open(operation, head[1] or ""))

    def _begin_block(self, text: str) -> None:
        label = _LABEL.match(text)
        if label is None or not self.open:
            raise _error("expected the label of a block")
        region, position = self.open[-1].operation.regions[-1], label.end()
        block = self.open[-1].blocks.setdefault(label[1], Block())
        if block in region.blocks:
            raise _error(f"the block {label[1]} is defined twice")
        region.blocks.append(block)
        if text.startswith("(", position):
            end = closing(text, position)
            for part in split(text[position + 1 : end - 1]):
                name, _, typed = part.partition(":")
                kind, _, location = typed.strip().partition(" loc(")
                block.arguments.append(argument := self._define(name.strip(), kind))
                self.located += [(argument, location)] if location else []
            position = end
        if not text.startswith(":", position):
            raise _error("expected a colon after the block label")

    def _end_region(self) -> None:
        if not self.open:
            raise _error("unexpected end of a region")
        region, blocks = self.open[-1].operation.regions[-1], self.open[-1].blocks
        for name in (name for name, block in blocks.items() if block not in region.blocks):
            raise _error(f"the block {name} is not defined")
        self.open[-1].blocks = {}

    def _finish(self, operation: Operation, names: str, rest: str) -> None:
        """Read what follows the operands, properties and regions: attributes, types and location."""
        if rest.startswith("{"):
            end = closing(rest, 0)
            operation.attributes = entries(rest[1 : end - 1])
            rest = rest[end:].strip()
        if not rest.startswith(": ("):
            raise _error(f"expected the type of {operation.name}")
        types, _, location = rest[2:].partition(" loc(")
        end = closing(types, 0)
        arrow, result = types[end : end + 4], types[end + 4 :].strip()
        if arrow != " -> " or len(split(types[1 : end - 1])) != len(operation.operands):
            raise _error(f"expected a function type of {operation.name} that fits its operands")
        if result.startswith("(") and closing(result, 0) != len(result):
            raise _error(f"expected the result types of {operation.name}")
        results = split(result[1:-1]) if result.startswith("(") else [result]
        packs = [(pack[1], pack[2]) for pack in _RESULT.finditer(names)]
        count = sum(int(size or 1) for _, size in packs)
        if count != len(results):  # before a name is made for each, because a damaged program may ask for any number
            raise _error(f"{operation.name} has {count} results but {len(results)} result types")
        wanted = [name if size is None else f"{name}#{index}" for name, size in packs for index in range(int(size or 1))]
        operation.results = [self._define(name, kind) for name, kind in zip(wanted, results, strict=True)]
        self.located += [(operation, location)] if location else []

    def _define(self, name: str, kind: str) -> Value:
        value = self.undefined.pop(name, None) or Value(kind)
        value.type = kind
        self.values[name] = value
        if name.endswith("#0"):
            self.values[name[:-2]] = value
        return value

    def _position(self, location: str, depth: int) -> SourcePosition | None:
        if found := _POSITION.search(location):
            return SourcePosition(sys.intern(found[1]), int(found[2]), int(found[3]))
        inner = _LOCATION_ALIAS.search(location)
        return self._position(self.aliases.get(inner.group(), ""), depth + 1) if inner and depth < 8 else None


def print_module(module: Module) -> str:
    """Return the module's text: one operation a line, regions indented by two spaces."""
    printer = _Printer()
    printer.name_values(module.root)
    printer.operation(module.root, "")
    body = "\n".join(printer.lines)
    return "\n".join([*_prelude(body, module.aliases), body, *([module.trailer] if module.trailer else []), ""])


def _prelude(body: str, aliases: Mapping[str, str]) -> list[str]:
    """Return the aliases that the body uses, directly or through others, in their order."""
    used: set[str] = set()
    waiting = [body] if aliases else []
    while waiting:
        found = (set(_ALIAS_USE.findall(waiting.pop())) & aliases.keys()) - used
        used |= found
        waiting += [aliases[name] for name in found]
    return [f"{name} = {text}" for name, text in aliases.items() if name in used]


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.labels: dict[Block, str] = {}
        self.lines: list[str] = []

    def name_values(self, root: Operation) -> None:
        """Name all values first: in graph regions and with several blocks a value may be used above its definition."""
        results = arguments = 0
        for operation in root.walk():
            many = len(operation.results) > 1
            for index, value in enumerate(operation.results):
                self.names[value] = f"%{results}#{index}" if many else f"%{results}"
            results += bool(operation.results)
            for region in operation.regions:
                for index, block in enumerate(region.blocks):
                    if index or block.arguments:
                        self.labels[block] = f"^bb{len(self.labels)}"
                    for value in block.arguments:
                        self.names[value] = f"%arg{arguments}"
                        arguments += 1

    def operation(self, operation: Operation, indent: str) -> None:
        """Print an operation with its regions."""
        results = operation.results
        name = self.names[results[0]].partition("#")[0] if results else ""
        named = f"{name}:{len(results)} = " if len(results) > 1 else f"{name} = " if results else ""
        head = f'{indent}{named}"{operation.name}"({", ".join(self.names[value] for value in operation.operands)})'
        if operation.successors:
            head += f"[{', '.join(self.labels[block] for block in operation.successors)}]"
        if operation.properties:
            head += f" <{{{entries_text(operation.properties)}}}>"
        tail = f" {{{entries_text(operation.attributes)}}}" if operation.attributes else ""
        types = ", ".join(value.type for value in results)
        result = types if len(results) == 1 and not types.startswith("(") else f"({types})"
        tail += f" : ({', '.join(value.type for value in operation.operands)}) -> {result}"
        if not operation.regions:
            self.lines.append(head + tail)
            return
        self.lines.append(head + " ({")
        for index, region in enumerate(operation.regions):
            if index:
                self.lines.append(f"{indent}}}, {{")
            for block in region.blocks:
                if block in self.labels:
                    arguments = ", ".join(f"{self.names[value]}: {value.type}" for value in block.arguments)
                    self.lines.append(f"{indent}{self.labels[block]}{f'({arguments})' if arguments else ''}:")
                for inner in block.operations:
                    self.operation(inner, indent + "  ")
        self.lines.append(f"{indent}}}){tail}")
