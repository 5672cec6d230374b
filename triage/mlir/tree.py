"""Operations, regions, blocks and values. Dialects are unknown here: attributes and types are text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where something stands in a source; line and column count from 1."""

    file: str
    line: int
    column: int


class Value:
    """An operation's result or a block's argument; equal only to itself. `type` is MLIR's text for it; `place` is known of
    arguments alone.
    """

    __slots__ = ("place", "type")

    def __init__(self, type_: str) -> None:
        self.type = type_
        self.place: SourcePosition | None = None

    def __repr__(self) -> str:
        return f"Value({self.type})"


@dataclass(eq=False, slots=True)
class Operation:
    """One operation. `properties` and `attributes` keep their text by name; a unit attribute's text is empty.

    place: where in a source it came from, None where that is not known.
    """

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)
    place: SourcePosition | None = None

    @property
    def line(self) -> int | None:
        """The 1-based line of the source."""
        return self.place.line if self.place else None

    def attribute(self, name: str) -> str | None:
        """An attribute's text, wherever this version keeps it."""
        return self.properties.get(name, self.attributes.get(name))

    @property
    def symbol(self) -> str | None:
        """The name it defines, without its quotes; None where it defines none."""
        text = self.attribute("sym_name")
        return text[1:-1] if text else None

    def walk(self) -> Iterator[Operation]:
        """The operation and all inside it, in the order of the text."""
        yield self
        for region in self.regions:
            yield from region.walk()


@dataclass(eq=False, slots=True)
class Block:
    """Arguments and operations; the last operation is the terminator where the dialect asks for one."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Region:
    """Blocks, the entry first."""

    blocks: list[Block] = field(default_factory=list)

    def walk(self) -> Iterator[Operation]:
        """All operations inside, in the order of the text."""
        for block in self.blocks:
            for operation in block.operations:
                yield from operation.walk()


@dataclass(eq=False, slots=True)
class Module:
    """A whole file. `aliases`: `#name` and `!name` -> what they stand for; `trailer`: the resources at its end."""

    root: Operation
    aliases: Mapping[str, str] = field(default_factory=dict)
    trailer: str = ""

    @property
    def body(self) -> Block:
        """The block that holds the module's symbols."""
        return self.root.regions[0].blocks[0]

    def walk(self) -> Iterator[Operation]:
        """All operations of the module, itself not among them."""
        return self.root.regions[0].walk()

    def functions(self) -> list[Operation]:
        """Operations of the module's top level with a body and a function type, of whatever dialect."""
        return [one for one in self.body.operations if one.attribute("function_type") and one.regions and one.regions[0].blocks]


def free_values(operation: Operation) -> list[Value]:
    """What an operation needs from outside: its operands and what its regions capture, each once, in order of use."""
    if not operation.regions:
        return list(dict.fromkeys(operation.operands))
    inside: set[Value] = set()
    used: dict[Value, None] = {}
    for one in operation.walk():
        used |= dict.fromkeys(one.operands)
        if one is not operation:
            inside.update(one.results)
        for region in one.regions:
            for block in region.blocks:
                inside.update(block.arguments)
    return [value for value in used if value not in inside]


def users(block: Block) -> dict[Value, list[Operation]]:
    """Which operations of a block need which value, those that capture it in a region included."""
    found: dict[Value, list[Operation]] = {}
    for operation in block.operations:
        for value in free_values(operation):
            found.setdefault(value, []).append(operation)
    return found


def kind(operation: Operation) -> tuple[object, ...]:
    """What two operations have in common that do the same to other values: name, types, attributes, what is inside."""
    inside = tuple((one.name, *(value.type for value in one.results)) for one in operation.walk())
    return (
        inside,
        tuple(value.type for value in operation.operands),
        tuple((name, text) for name, text in operation.properties.items() if "@" not in text),
    )


_INTERESTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|->|[<>=]=|[<>{}()\[\]]', re.DOTALL)
_PARTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|->|[<>=]=|[<>{}()\[\],]', re.DOTALL)
_OPENERS = frozenset("<{([")
_CLOSERS = frozenset(">})]")
_SYMBOL = re.compile(r'@("[^"\\]*(?:\\.[^"\\]*)*"|[\w$.-]+)')


class UnbalancedError(ValueError):
    """A bracket without its partner; `offset` says where the text was opened."""

    def __init__(self, offset: int) -> None:
        super().__init__("unbalanced brackets")
        self.offset = offset


def closing(text: str, start: int) -> int:
    """The index after the bracket that closes the one at `start`. UnbalancedError where there is none."""
    depth = 0
    for found in _INTERESTING.finditer(text, start):
        token = found.group()
        if token in _OPENERS:
            depth += 1
        elif token in _CLOSERS:
            depth -= 1
            if depth == 0:
                return found.end()
    raise UnbalancedError(start)


def split(text: str) -> list[str]:
    """The parts between the commas that stand in no bracket, stripped; none for an empty text."""
    if "," not in text:
        return [text.strip()] if text.strip() else []
    parts, depth, begin = [], 0, 0
    for found in _PARTING.finditer(text):
        token = found.group()
        if token in _OPENERS:
            depth += 1
        elif token in _CLOSERS:
            depth -= 1
        elif token == "," and depth == 0:  # noqa: S105
            parts.append(text[begin : found.start()].strip())
            begin = found.end()
    parts.append(text[begin:].strip())
    return parts


def entries(text: str) -> dict[str, str]:
    """The names and texts of an attribute dictionary's inside; a unit attribute's text is empty."""
    found = {}
    for part in split(text):
        name, _, value = part.partition(" = ")
        found[name.strip()] = value.strip()
    return found


def symbols(text: str) -> Iterator[str]:
    """The names of the symbols a text refers to, without `@` and quotes."""
    if "@" in text:
        for found in _SYMBOL.finditer(text):
            yield found.group(1).strip('"')
