"""The tree of an MLIR module: operations, regions, blocks and values. Attributes and
types are kept as text.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

CANONICALIZE = ("--canonicalize", "--cse")
"""Options of an `opt` program that fold a module."""

_FUNCTION_TYPE = "function_type"


@dataclass(frozen=True)
class SourcePosition:
    """A position in a source file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(eq=False)
class Value:
    """A result of an operation or an argument of a block, compared by identity."""

    type: str
    origin: Hashable = None
    """The value that it is a copy of, for programs that copy modules."""
    position: SourcePosition | None = None
    """Only arguments of blocks have one."""


@dataclass(eq=False)
class Operation:
    """An operation. `properties` and `attributes` map names to text, which is empty for
    a unit attribute.
    """

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)
    position: SourcePosition | None = None

    @property
    def line(self) -> int | None:
        if self.position:
            return self.position.line
        return None

    def attribute(self, name: str) -> str | None:
        """Return an attribute's text, if the operation has it. Depending on the version
        it is in `properties` or in `attributes`.
        """
        return self.properties.get(name, self.attributes.get(name))

    @property
    def inherent(self) -> dict[str, str]:
        """The one of the two dictionaries that holds a function's type."""
        is_property = _FUNCTION_TYPE in self.properties
        if is_property:
            return self.properties
        return self.attributes

    def texts(self) -> list[str]:
        return [*self.properties.values(), *self.attributes.values()]

    @property
    def symbol(self) -> str | None:
        """The symbol that the operation defines, without quotes."""
        text = self.attribute("sym_name")
        if text:
            return text[1:-1]
        return None

    def walk(self) -> Iterator[Operation]:
        """Yield the operation and all operations inside it, in source order."""
        yield self
        for region in self.regions:
            yield from region.walk()


@dataclass(eq=False)
class Block:
    """Arguments and operations; the last operation is the terminator if the dialect
    requires one.
    """

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(eq=False)
class Region:
    """Blocks, the entry block first."""

    blocks: list[Block] = field(default_factory=list)

    def walk(self) -> Iterator[Operation]:
        """Yield all operations inside, in source order."""
        for block in self.blocks:
            for operation in block.operations:
                yield from operation.walk()


@dataclass(eq=False)
class Module:
    """A module with its aliases (`#name` or `!name` -> text) and the resource section
    at its end (`trailer`).
    """

    root: Operation
    aliases: Mapping[str, str] = field(default_factory=dict)
    trailer: str = ""

    @property
    def body(self) -> Block:
        """The block that holds the module's symbols."""
        return self.root.regions[0].blocks[0]

    def walk(self) -> Iterator[Operation]:
        """Yield all operations inside the module, in source order."""
        return self.root.regions[0].walk()

    def functions(self) -> list[Operation]:
        """Return the top-level operations, of any dialect, that have a function type
        and a body.
        """
        return [
            operation
            for operation in self.body.operations
            if operation.attribute(_FUNCTION_TYPE)
            and operation.regions
            and operation.regions[0].blocks
        ]

    def blocks(self) -> list[Block]:
        return [
            block
            for operation in self.root.walk()
            for region in operation.regions
            for block in region.blocks
        ]

    def values(self) -> list[Value]:
        results = [value for operation in self.walk() for value in operation.results]
        return results + [value for block in self.blocks() for value in block.arguments]


def retype_function(function: Operation) -> None:
    """Derive a function's type from its arguments and what it returns, after a change
    of them.
    """
    blocks = function.regions[0].blocks
    ends = [block.operations[-1] for block in blocks if block.operations]
    for end in ends:
        if "return" in end.name.lower():
            arguments = ", ".join(value.type for value in blocks[0].arguments)
            results = ", ".join(value.type for value in end.operands)
            function.inherent[_FUNCTION_TYPE] = f"({arguments}) -> ({results})"


def arguments_of(function: Operation) -> list[Value]:
    """Return a function's arguments; none if it has no body."""
    if function.regions and function.regions[0].blocks:
        return function.regions[0].blocks[0].arguments
    return []


def replace_results(module: Module, replacements: Mapping[Value, Value]) -> None:
    """Use other values in place of results, and remove the operations whose first
    result is replaced. `replacements` maps results to values.
    """
    for block in module.blocks():
        block.operations = [
            operation
            for operation in block.operations
            if not (operation.results and operation.results[0] in replacements)
        ]
    for operation in module.walk():
        for index, value in enumerate(operation.operands):
            # Replacements are replaced as well. They may form a circle.
            for _ in range(len(replacements)):
                value = replacements.get(value, value)
                if value not in replacements:
                    break
            operation.operands[index] = value


def free_values(operation: Operation) -> list[Value]:
    """Return the values that an operation and its regions use and do not define, each
    once, in order of use.
    """
    if not operation.regions:
        return list(dict.fromkeys(operation.operands))
    inside: set[Value] = set()
    used: dict[Value, None] = {}
    for inner in operation.walk():
        used |= dict.fromkeys(inner.operands)
        if inner is not operation:
            inside.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.arguments)
    return [value for value in used if value not in inside]


_MARK = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|->|[<>=]=|[<>{}()\[\],]')
_DEPTH = {**dict.fromkeys("<{([", 1), **dict.fromkeys(">})]", -1)}
_SYMBOL = re.compile(r'@("[^"\\]*(?:\\.[^"\\]*)*"|[\w$.-]+)')


class UnbalancedError(ValueError):
    """A bracket that is never closed."""


def _separators(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield each bracket and comma outside of strings, the depth of brackets after it,
    and the index of its end.
    """
    depth = 0
    for match in _MARK.finditer(text, start):
        mark = match.group()
        depth += _DEPTH.get(mark, 0)
        yield mark, depth, match.end()


def end_of_bracket(text: str, start: int) -> int:
    """Return the index after the bracket that closes the one at `start`. Raises
    UnbalancedError if there is none.
    """
    for mark, depth, end in _separators(text, start):
        if depth == 0 and mark in _DEPTH:
            return end
    raise UnbalancedError("unclosed bracket")


def end_of_attribute(text: str, start: int) -> int:
    """Return the index of the comma or bracket that ends the attribute at `start`."""
    ends = (
        end - 1
        for mark, depth, end in _separators(text, start)
        if depth < 0 or (depth == 0 and mark == ",")
    )
    return next(ends, len(text))


def split_list(text: str) -> list[str]:
    """Split at the commas outside of brackets, and strip the parts. An empty text has
    no parts.
    """
    parts = []
    begin = 0
    for mark, depth, end in _separators(text, 0) if "," in text else ():
        if mark == "," and depth == 0:
            parts.append(text[begin : end - 1].strip())
            begin = end
    last = text[begin:].strip()
    if parts or last:
        return [*parts, last]
    return []


def array_elements(text: str | None) -> list[str]:
    """Return the elements of an array attribute `[…]`. None has no elements."""
    return split_list((text or "").strip()[1:-1])


def parse_entries(text: str) -> dict[str, str]:
    """Return the attributes in the text of a dictionary without its braces: name ->
    text, which is empty for a unit attribute.
    """
    pairs = (part.partition(" = ") for part in split_list(text))
    return {name.strip(): value.strip() for name, _, value in pairs}


def entries_text(named: Mapping[str, str]) -> str:
    """Return the text of an attribute dictionary, without its braces."""
    return ", ".join(
        f"{name} = {text}" if text else name for name, text in named.items()
    )


def symbols(text: str) -> Iterator[str]:
    """Yield the symbols that a text refers to, without `@` and quotes."""
    if "@" in text:
        for match in _SYMBOL.finditer(text):
            yield match.group(1).strip('"')
