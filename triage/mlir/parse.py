"""The generic form of MLIR, as `mlir-opt --mlir-print-op-generic` prints it, to a tree."""

from __future__ import annotations

import re
import sys

from triage.mlir.tree import Block, Module, Operation, Region, SourcePosition, UnbalancedError, Value, closing, entries, split

_ALIAS = re.compile(r"([#!][\w$.-]+) = (.*)\n?")
_HEAD = re.compile(r'\s*(?:((?:%[\w$.:-]+(?:,\s*)?)+)\s*=\s*)?"([\w$.-]+)"\(([^()]*)\)\s*')
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d+))?")
_LABEL = re.compile(r"\s*(\^[\w$.-]+)(?=[(:])")
_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_LOCATION_ALIAS = re.compile(r"#loc\d*")


class UnparsableError(ValueError):
    """The text is not in the generic form; `line` is the 1-based line where reading stopped."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def parse_module(text: str) -> Module:
    """A module from its generic form, with or without locations. UnparsableError for anything else."""
    reader = _Reader(text)
    try:
        return reader.module()
    except UnbalancedError as error:
        raise reader.wrong("a bracket that is never closed", error.offset) from error
    except RecursionError as error:
        raise reader.wrong("regions nested too deeply", reader.at) from error


class _Reader:
    """A cursor over the text, and the values named so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.aliases: dict[str, str] = {}
        self.values: dict[str, Value] = {}
        self.open: dict[str, Value] = {}  # used before they were defined, as control flow may
        self.blocks: dict[str, Block] = {}
        self.located: list[tuple[Operation | Value, str]] = []

    def wrong(self, message: str, offset: int) -> UnparsableError:
        return UnparsableError(message, self.text.count("\n", 0, offset) + 1)

    def module(self) -> Module:
        self._aliases()
        root = self._operation()
        self._aliases()  # those of locations stand behind the module
        rest = self.text[self.at :].strip()
        if self.open:
            raise self.wrong(f"{next(iter(self.open))} is never defined", self.at)
        if rest and not rest.startswith("{-#"):
            raise self.wrong("something follows the module", self.at)
        if root.name != "builtin.module" or len(root.regions) != 1 or len(root.regions[0].blocks) > 1:
            raise self.wrong("the outermost operation is no module", 0)
        root.regions[0].blocks = root.regions[0].blocks or [Block()]  # an empty module's block is not printed
        self._place_all()
        aliases = {name: value for name, value in self.aliases.items() if not value.startswith("loc(")}
        return Module(root, aliases, rest)

    def _aliases(self) -> None:
        self._space()
        while found := _ALIAS.match(self.text, self.at):
            self.aliases[found[1]] = found[2].strip()
            self.at = found.end()
            self._space()

    def _space(self) -> None:
        text, at = self.text, self.at
        while at < len(text):
            if text[at].isspace():
                at += 1
            elif text.startswith("//", at):
                at = text.find("\n", at)
                at = len(text) if at < 0 else at
            else:
                break
        self.at = at

    def _operation(self) -> Operation:
        head = _HEAD.match(self.text, self.at)
        if head is None:
            raise self.wrong("no operation in its generic form", self.at)
        operation = Operation(head[2], operands=[self._use(name) for name in split(head[3])])
        self.at = head.end()
        if self.text.startswith("[", self.at):
            operation.successors = [self.blocks.setdefault(name, Block()) for name in split(self._inside())]
        if self.text.startswith("<{", self.at):
            operation.properties = entries(self._inside()[1:-1])
        if self.text.startswith("({", self.at):
            operation.regions = self._regions()
        if self.text.startswith("{", self.at):
            operation.attributes = entries(self._inside())
        if not self.text.startswith(": ", self.at):
            raise self.wrong(f"{operation.name} has no type", self.at)
        self.at += 2
        types = self._results(len(operation.operands), operation.name)
        operation.results = self._define(head[1] or "", types, operation.name)
        if location := self._location():
            self.located.append((operation, location))
        return operation

    def _inside(self) -> str:
        """What the bracket at the cursor holds; the cursor goes behind it and behind the space that follows."""
        end = closing(self.text, self.at)
        inside = self.text[self.at + 1 : end - 1]
        self.at = end
        self._space()
        return inside

    def _use(self, name: str) -> Value:
        if name not in self.values:
            return self.open.setdefault(name, Value(""))
        return self.values[name]

    def _define(self, names: str, types: list[str], operation: str) -> list[Value]:
        wanted: list[str] = []
        for found in _RESULT.finditer(names):
            count = int(found[2] or 1)
            wanted += [found[1]] if found[2] is None else [f"{found[1]}#{index}" for index in range(count)]
        if len(wanted) != len(types):
            raise self.wrong(f"{operation} names {len(wanted)} results and has {len(types)} types", self.at)
        return [self._name(name, kind) for name, kind in zip(wanted, types, strict=True)]

    def _name(self, name: str, kind: str) -> Value:
        value = self.open.pop(name, None) or Value(kind)
        value.type = kind
        self.values[name] = value
        if name.endswith("#0"):
            self.values[name[:-2]] = value
        return value

    def _results(self, operands: int, operation: str) -> list[str]:
        """The result types behind the cursor's `(operand types) ->`."""
        inside = self._inside()
        if len(split(inside)) != operands or not self.text.startswith("->", self.at):
            raise self.wrong(f"{operation} has no function type that fits", self.at)
        self.at += 2
        self._space()
        if self.text.startswith("(", self.at):
            end = closing(self.text, self.at)
            types = split(self.text[self.at + 1 : end - 1])
        else:
            end = _end_of_type(self.text, self.at)
            types = [self.text[self.at : end]]
        self.at = end
        return types

    def _location(self) -> str:
        found = re.compile(r"\s*loc\(").match(self.text, self.at)
        if found is None:
            return ""
        begin = found.end() - 1
        self.at = closing(self.text, begin)
        return self.text[begin : self.at]

    def _regions(self) -> list[Region]:
        """`({...}, {...})` at the cursor."""
        self.at += 1
        regions = []
        while True:
            self._space()
            self.at += 1
            regions.append(self._region())
            self._space()
            self.at += 1
            self._space()
            if self.text.startswith(",", self.at):
                self.at += 1
                continue
            self.at += 1  # the closing parenthesis
            self._space()
            return regions

    def _region(self) -> Region:
        outer, self.blocks = self.blocks, {}
        region = Region()
        self._space()
        while not self.text.startswith("}", self.at):
            if self.at >= len(self.text):
                raise self.wrong("a region that is never closed", self.at)
            label = _LABEL.match(self.text, self.at)
            if label:
                region.blocks.append(self._block(label))
            else:
                if not region.blocks:
                    region.blocks.append(Block())
                region.blocks[-1].operations.append(self._operation())
            self._space()
        self.blocks = outer
        return region

    def _block(self, label: re.Match[str]) -> Block:
        block = self.blocks.setdefault(label[1], Block())
        self.at = label.end()
        if self.text.startswith("(", self.at):
            for part in split(self._inside()):
                name, _, kind = part.partition(":")
                kind, _, location = kind.strip().rpartition(" loc(") if " loc(" in kind else (kind.strip(), "", "")
                block.arguments.append(argument := self._name(name.strip(), kind))
                if location:
                    self.located.append((argument, location))
        if not self.text.startswith(":", self.at):
            raise self.wrong("a block's label without its colon", self.at)
        self.at += 1
        return block

    def _place_all(self) -> None:
        """Aliases of locations may follow the module: places are known when all have been read."""
        known: dict[str, SourcePosition | None] = {}
        for one, location in self.located:
            if location not in known:
                known[location] = self._place(location, 0)
            one.place = known[location]

    def _place(self, location: str, depth: int) -> SourcePosition | None:
        if found := _PLACE.search(location):
            return SourcePosition(sys.intern(found[1]), int(found[2]), int(found[3]))
        inner = _LOCATION_ALIAS.search(location)
        return self._place(self.aliases.get(inner.group(), ""), depth + 1) if inner and depth < 8 else None


_TYPE_STOP = re.compile(r"[<(\s,})\]]")


def _end_of_type(text: str, at: int) -> int:
    """The index after the type at `at`, which is no function type."""
    while True:
        found = _TYPE_STOP.search(text, at)
        if found is None:
            return len(text)
        if found.group() in "<(" and (found.group() == "<" or text.startswith("tuple", at)):
            at = closing(text, found.start())
            continue
        return found.start()
