"""MLIR modules as programs to reduce, copies of them to change, and cuts: some
operations of a function as a program of their own.

A pass changes a copy of the whole module in place. So a value that a cut needs from a
dropped operation simply becomes an argument: nothing is renamed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from triage.execution.mlir_tools import Reader
from triage.mlir import Block, Module, Operation, Region, Value, print_module
from triage.mlir.tree import (
    arguments_of,
    array_elements,
    free_values,
    retype_function,
    symbols,
)
from triage.reduce.problem import Entry, Program

Copies = dict[Any, Any]
"""The new operation, block or value for each old one."""

# Types that the arguments and results of an exported function can have in every
# version.
_CROSSABLE = re.compile(
    r"tensor<|!torch\.vtensor<|complex<|[us]?i\d+$|index$|b?f\d+|!hal\."
)
_SHORT = 256  # characters of attributes; longer constants become inputs


@dataclass(frozen=True, eq=False)
class MlirProgram(Program):
    """A module in its generic form. `module` is shared: passes build new ones and never
    change it.
    """

    module: Module
    readers: Sequence[Reader]
    """The tools of the toolchains in which the program must be valid."""
    suffix = "mlir"
    unit = "operation"

    @cached_property
    def text(self) -> str:
        """The generic form, with new value names and without locations."""
        return print_module(self.module)

    @property
    def content(self) -> bytes:
        return self.text.encode()

    @cached_property
    def size(self) -> int:
        return sum(1 for _ in self.module.walk())

    @cached_property
    def canonical(self) -> bytes | None:
        """The module as the toolchain prints it; None if a toolchain rejects it."""
        texts = [reader.generic_if_valid(self.text) for reader in self.readers]
        if not all(texts):
            return None
        return (texts[0] or "").encode()

    @property
    def readable_content(self) -> bytes:
        """The custom syntax where all toolchains read it, else the generic form."""
        text = self.readers[0].text_after_passes(self.text) or self.text
        if not all(reader.generic_if_valid(text) for reader in self.readers):
            text = self.text
        return f"{text.rstrip()}\n".encode()

    def entry(self, function: str | None) -> Entry | None:
        functions = self.module.functions()
        named = [candidate for candidate in functions if candidate.symbol == function]
        public = [
            candidate
            for candidate in functions
            if candidate.attribute("sym_visibility") != '"private"'
        ]
        called = named or public
        if len(called) == 1:
            return Entry(called[0].symbol, arguments_of(called[0]))
        return None

    def copy_module(self) -> tuple[Module, Copies]:
        """Copy the module, for a pass to change the copy in place."""
        new: Copies = {}
        return replace(self.module, root=_copy(self.module.root, new)), new


def name_arguments(module: Module, before: Module | None = None) -> None:
    """Number the arguments of each function, so that their copies can be found in
    smaller programs. Take over the numbers from `before`, the module as it was.
    """
    origins = {
        (function.symbol, number): value.origin
        for function in (before.functions() if before else [])
        for number, value in enumerate(arguments_of(function))
    }
    for function in module.functions():
        for number, value in enumerate(arguments_of(function)):
            name = (function.symbol, number)
            value.origin = origins.get(name) if before else name


def _copy(operation: Operation, new: Copies) -> Operation:
    def copies(values: Sequence[Value]) -> list[Value]:
        # a value may be used in a block that stands before its definition
        for value in values:
            if value not in new:
                new[value] = Value(value.type, value.origin)
        return [new[value] for value in values]

    regions = []
    for region in operation.regions:
        for block in region.blocks:
            new[block] = Block(copies(block.arguments))
        for block in region.blocks:
            new[block].operations = [_copy(inner, new) for inner in block.operations]
        regions.append(Region([new[block] for block in region.blocks]))
    copy = Operation(
        operation.name,
        copies(operation.operands),
        copies(operation.results),
        dict(operation.properties),
        dict(operation.attributes),
        regions,
        [new[block] for block in operation.successors],
        operation.position,
    )
    new[operation] = copy
    return copy


def body_of(function: Operation) -> Block | None:
    """Find the only block of a function; None unless it has one, with a terminator."""
    blocks = function.regions[0].blocks
    if len(blocks) == 1 and blocks[0].operations:
        return blocks[0]
    return None


def cuttable(function: Operation) -> list[Operation]:
    """List the operations that can be cut out: all but the terminator and those that a
    cut takes with their users.
    """
    block = body_of(function)
    operations = block.operations[:-1] if block else []
    return [operation for operation in operations if not _follows_its_users(operation)]


def _follows_its_users(operation: Operation) -> bool:
    """Return whether an operation is a short constant or an empty tensor."""
    if operation.operands or operation.regions or len(operation.results) != 1:
        return False
    text = " ".join(operation.texts())
    return len(text) < _SHORT and "@" not in text and "dense_resource" not in text


def cut(
    program: MlirProgram, function: Operation, operations: Collection[Operation]
) -> MlirProgram | None:
    """Make a program of only some operations of a function, the constants they need and
    the symbols they refer to.

    Values that the kept operations need from others become arguments. The results of
    the new function are the values that none of the kept operations uses.

    Returns None if the operations cannot be cut apart.
    """
    block = body_of(function)
    if block is None:
        return None
    operations = set(operations)
    kept = _with_what_they_need(block, operations)
    read = dict.fromkeys(value for item in kept for value in free_values(item))
    results = [
        value
        for operation in kept
        if operation in operations
        for value in filter(_is_crossable, operation.results)
    ]
    returned = [value for value in results if value not in read] or results[-1:]
    if not returned and all(operation.results for operation in kept):
        return None
    inside = {value for operation in kept for value in operation.results}
    old = [value for value in block.arguments if value in read]
    # the old ones first
    arguments = [value for value in dict.fromkeys([*old, *read]) if value not in inside]

    module, new = program.copy_module()
    smaller: Operation = new[function]
    end: Operation = new[block.operations[-1]]
    body: Block = new[block]
    _keep_attributes(smaller, "arg_attrs", block.arguments, arguments)
    _keep_attributes(smaller, "res_attrs", block.operations[-1].operands, returned)
    for name in ("sym_visibility", "tied_operands"):
        smaller.inherent.pop(name, None)
    body.arguments = [new[value] for value in arguments]
    body.operations = [*(new[operation] for operation in kept), end]
    end.operands = [new[value] for value in returned]
    retype_function(smaller)
    _keep_symbols_of(module, smaller)
    return replace(program, module=module)


def _with_what_they_need(
    block: Block, operations: Collection[Operation]
) -> list[Operation]:
    """Return operations with the constants that they read, and with the makers of
    values that no argument can carry.
    """
    needed = set[Value]()
    kept = list[Operation]()
    for operation in reversed(block.operations[:-1]):
        is_taken_along = _follows_its_users(operation) or not all(
            map(_is_crossable, operation.results)
        )
        is_read = not needed.isdisjoint(operation.results)
        if operation in operations or (is_taken_along and is_read):
            kept.append(operation)
            needed.update(free_values(operation))
    return kept[::-1]


def _keep_attributes(
    function: Operation, name: str, before: Sequence[Value], after: Collection[Value]
) -> None:
    """Update the attributes that a function has for each argument or result."""
    texts = array_elements(function.inherent.pop(name, None))
    text_of = dict(zip(before, texts, strict=False))
    new = [text_of.get(value, "{}") for value in after]
    if any(text != "{}" for text in new):
        function.inherent[name] = f"[{', '.join(new)}]"


def _is_crossable(value: Value) -> bool:
    """Return whether an argument or a result can carry a value in every version."""
    return bool(_CROSSABLE.match(value.type))


def _keep_symbols_of(module: Module, function: Operation) -> None:
    """Drop the module's symbols that a function does not refer to, directly or not."""
    by_name = {operation.symbol: operation for operation in module.body.operations}
    needed = {function}
    waiting = [function]
    while waiting:
        for operation in waiting.pop().walk():
            types = (value.type for value in operation.results)
            for text in (*operation.texts(), *types):
                for symbol in map(by_name.get, symbols(text)):
                    if symbol and symbol not in needed:
                        needed.add(symbol)
                        waiting.append(symbol)
    module.body.operations = [
        operation for operation in module.body.operations if operation in needed
    ]
