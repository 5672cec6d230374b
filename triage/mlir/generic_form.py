"""Parse and print the generic form of MLIR, as `mlir-opt --mlir-print-op-generic` prints it.

Printed text is canonical: values and blocks are numbered in order, locations are omitted, and only used aliases are printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

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

_ALIAS = re.compile(r"([#!][\w$.-]+) = (.*)\n?")
_HEAD = re.compile(r'\s*(?:((?:%[\w$.:-]+(?:,\s*)?)+)\s*=\s*)?"([\w$.-]+)"\(([^()]*)\)\s*')
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d{1,9}))?")
_LABEL = re.compile(r"\s*(\^[\w$.-]+)(?=[(:])")
_POSITION = re.compile(r'"([^"]*)":(\d{1,9}):(\d{1,9})')
_LOCATION_ALIAS = re.compile(r"#loc\d*")
_DEEPEST = 100  # regions inside each other, so that functions that follow them recursively stay below Python's limit


class UnparsableError(ValueError):
    """The text is not in the generic form; `line` is the line of the error, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def parse_module(text: str) -> Module:
    """Parse a module in generic form, with or without locations; UnparsableError for anything else."""
    reader = _Reader(text)
    try:
        return reader.module()
    except UnbalancedError as error:
        raise reader.error("unclosed bracket", error.offset) from error


class _Reader:
    """A cursor over the text, and the values defined so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.aliases: dict[str, str] = {}
        self.values: dict[str, Value] = {}
        self.open: dict[str, Value] = {}  # used before their definition, which control flow allows
        self.blocks: dict[str, Block] = {}
        self.located: list[tuple[Operation | Value, str]] = []
        self.depth = 0  # of the region at the cursor

    def error(self, message: str, offset: int) -> UnparsableError:
        return UnparsableError(message, self.text.count("\n", 0, offset) + 1)

    def module(self) -> Module:
        self._aliases()
        root = self._operation()
        self._aliases()  # aliases of locations follow the module
        rest = self.text[self.position :].strip()
        if self.open:
            raise self.error(f"{next(iter(self.open))} is not defined", self.position)
        if rest and not rest.startswith("{-#"):
            raise self.error("unexpected text after the module", self.position)
        if root.name != "builtin.module" or len(root.regions) != 1 or len(root.regions[0].blocks) > 1:
            raise self.error("the outermost operation is not a module", 0)
        root.regions[0].blocks = root.regions[0].blocks or [Block()]  # an empty module's block is not printed
        self._resolve_locations()
        aliases = {name: value for name, value in self.aliases.items() if not value.startswith("loc(")}
        return Module(root, aliases, rest)

    def _aliases(self) -> None:
        self._space()
        while found := _ALIAS.match(self.text, self.position):
            self.aliases[found[1]] = found[2].strip()
            self.position = found.end()
            self._space()

    def _space(self) -> None:
        text, index = self.text, self.position
        while index < len(text):
            if text[index].isspace():
                index += 1
            elif text.startswith("//", index):
                index = text.find("\n", index)
                index = len(text) if index < 0 else index
            else:
                break
        self.position = index

    def _operation(self) -> Operation:
        head = _HEAD.match(self.text, self.position)
        if head is None:
            raise self.error("expected an operation in generic form", self.position)
        operands = [self.values.get(name) or self.open.setdefault(name, Value("")) for name in split(head[3])]
        operation = Operation(head[2], operands=operands)
        self.position = head.end()
        if self.text.startswith("[", self.position):
            operation.successors = [self.blocks.setdefault(name, Block()) for name in split(self._inside())]
        if self.text.startswith("<{", self.position):
            inside = self._inside()
            if not inside.endswith("}"):
                raise self.error(f"expected }}> after the properties of {operation.name}", self.position)
            operation.properties = entries(inside[1:-1])
        if self.text.startswith("({", self.position):
            operation.regions = self._regions()
        if self.text.startswith("{", self.position):
            operation.attributes = entries(self._inside())
        if not self.text.startswith(": ", self.position):
            raise self.error(f"expected the type of {operation.name}", self.position)
        self.position += 2
        types = self._results(len(operation.operands), operation.name)
        operation.results = self._define(head[1] or "", types, operation.name)
        if location := self._location():
            self.located.append((operation, location))
        return operation

    def _inside(self) -> str:
        """Return the content of the bracket at the cursor and move behind it and the following space."""
        end = closing(self.text, self.position)
        inside = self.text[self.position + 1 : end - 1]
        self.position = end
        self._space()
        return inside

    def _define(self, names: str, types: list[str], operation: str) -> list[Value]:
        packs = [(pack[1], pack[2]) for pack in _RESULT.finditer(names)]
        count = sum(int(size or 1) for _, size in packs)
        if count != len(types):  # before a name is made for each, because a damaged program may ask for any number
            raise self.error(f"{operation} has {count} results but {len(types)} result types", self.position)
        wanted = [name if size is None else f"{name}#{index}" for name, size in packs for index in range(int(size or 1))]
        return [self._name(name, kind) for name, kind in zip(wanted, types, strict=True)]

    def _name(self, name: str, kind: str) -> Value:
        value = self.open.pop(name, None) or Value(kind)
        value.type = kind
        self.values[name] = value
        if name.endswith("#0"):
            self.values[name[:-2]] = value
        return value

    def _results(self, operands: int, operation: str) -> list[str]:
        """Parse `(operand types) -> result types` at the cursor and return the result types."""
        inside = self._inside()
        if len(split(inside)) != operands or not self.text.startswith("->", self.position):
            raise self.error(f"expected a function type of {operation} that fits its operands", self.position)
        self.position += 2
        self._space()
        if self.text.startswith("(", self.position):
            end = closing(self.text, self.position)
            types = split(self.text[self.position + 1 : end - 1])
        else:
            end = _end_of_type(self.text, self.position)
            types = [self.text[self.position : end]]
        self.position = end
        return types

    def _location(self) -> str:
        found = re.compile(r"\s*loc\(").match(self.text, self.position)
        if found is None:
            return ""
        begin = found.end() - 1
        self.position = closing(self.text, begin)
        return self.text[begin : self.position]

    def _regions(self) -> list[Region]:
        """Parse `({...}, {...})` at the cursor."""
        self.position += 1
        regions = []
        while True:
            self._space()
            self.position += 1
            regions.append(self._region())
            self._space()
            self.position += 1
            self._space()
            if self.text.startswith(",", self.position):
                self.position += 1
                continue
            self.position += 1  # the closing parenthesis
            self._space()
            return regions

    def _region(self) -> Region:
        if self.depth == _DEEPEST:
            raise self.error("regions nested too deeply", self.position)
        self.depth += 1
        outer, self.blocks = self.blocks, {}
        region, defined = Region(), set[Block]()
        self._space()
        while not self.text.startswith("}", self.position):
            if self.position >= len(self.text):
                raise self.error("unclosed region", self.position)
            label = _LABEL.match(self.text, self.position)
            if label:
                block = self._block(label)
                if block in defined:
                    raise self.error(f"the block {label[1]} is defined twice", self.position)
                defined.add(block)
                region.blocks.append(block)
            else:
                if not region.blocks:
                    region.blocks.append(Block())
                region.blocks[-1].operations.append(self._operation())
            self._space()
        for name in (name for name, block in self.blocks.items() if block not in defined):
            raise self.error(f"the block {name} is not defined", self.position)
        self.blocks = outer
        self.depth -= 1
        return region

    def _block(self, label: re.Match[str]) -> Block:
        block = self.blocks.setdefault(label[1], Block())
        self.position = label.end()
        if self.text.startswith("(", self.position):
            for part in split(self._inside()):
                name, _, kind = part.partition(":")
                kind, _, location = kind.strip().rpartition(" loc(") if " loc(" in kind else (kind.strip(), "", "")
                block.arguments.append(argument := self._name(name.strip(), kind))
                if location:
                    self.located.append((argument, location))
        if not self.text.startswith(":", self.position):
            raise self.error("expected a colon after the block label", self.position)
        self.position += 1
        return block

    def _resolve_locations(self) -> None:
        """Resolve locations; aliases of locations may follow the module."""
        known: dict[str, SourcePosition | None] = {}
        for located, location in self.located:
            if location not in known:
                known[location] = self._position(location, 0)
            located.position = known[location]

    def _position(self, location: str, depth: int) -> SourcePosition | None:
        if found := _POSITION.search(location):
            return SourcePosition(sys.intern(found[1]), int(found[2]), int(found[3]))
        inner = _LOCATION_ALIAS.search(location)
        return self._position(self.aliases.get(inner.group(), ""), depth + 1) if inner and depth < 8 else None


_TYPE_STOP = re.compile(r"[<(\s,})\]]")


def _end_of_type(text: str, position: int) -> int:
    """Return the index after the type at `start`, which is not a function type."""
    while True:
        found = _TYPE_STOP.search(text, position)
        if found is None:
            return len(text)
        if found.group() in "<(" and (found.group() == "<" or text.startswith("tuple", position)):
            position = closing(text, found.start())
            continue
        return found.start()


_ALIAS_USE = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")


def print_module(module: Module) -> str:
    """Return the module's text: one operation per line, regions indented by two spaces."""
    printer = _Printer()
    try:
        body = "\n".join(printer.operation(module.root, 0))
    except KeyError:  # a value is used above its definition, which graph regions allow
        printer = _Printer()
        for operation in module.root.walk():
            printer.name(operation)
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
        for name in set(_ALIAS_USE.findall(waiting.pop())) - used:
            if name not in aliases:
                continue
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

    def name(self, operation: Operation) -> None:
        """Name the results of an operation and the arguments of its blocks."""
        self._results(operation.results)
        for region in operation.regions:
            for value in (argument for block in region.blocks for argument in block.arguments):
                self._argument(value)

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
