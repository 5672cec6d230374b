"""MLIR modules as programs to reduce, changed copies of them, and cuts: some operations
of a function as a program of their own.

A pass changes a copy of the whole module in place. So a value that a cut needs from a
dropped operation simply becomes an argument: nothing is renamed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from triage.execution.mlir_tools import Reader
from triage.mlir import Block, Module, Operation, Region, Value, print_module
from triage.mlir.tree import (
    arguments_of,
    array_elements,
    free_values,
    set_function_types,
    symbols,
)
from triage.model.case import InputKind
from triage.reduce.program import Entry, ReducedCase, Reducible

Copies = dict[Any, Any]
# Types that the arguments and results of an exported function can have in every
# version.
_CROSSABLE = re.compile(
    r"tensor<|!torch\.vtensor<|complex<|[us]?i\d+$|index$|b?f\d+|!hal\."
)
_SHORT = 256  # characters of attributes; longer constants become inputs
_HEAD = re.compile(r'\s*(?:%[^"]*= )?"[\w$.-]+"\(')


@dataclass(slots=True)
class Checker:
    """The tools that read and check the programs of a reduction."""

    reader: Reader
    newest: Reader | None = None
    """Of the newest installed release. Programs must be valid there, too, because its
    verifier rejects more.
    """
    notes: list[str] = field(default_factory=list)

    def try_on(self, original: str) -> None:
        """Drop the newest release if it refuses the program to start from."""
        if self.newest and self.newest.generic_if_valid(original) is None:
            self.newest = None
            self.notes.append(
                "the newest installed release does not read the original, so smaller "
                "programs were not checked with it"
            )

    def generic_if_valid(self, text: str) -> str | None:
        """Return the generic form of a module; None if a toolchain rejects it."""
        valid = self.reader.generic_if_valid(text)
        if valid and self.newest and self.newest.generic_if_valid(text) is None:
            return None
        return valid


class MlirProgram(Reducible):
    """A module in its generic form. `module` is shared: passes build new ones and never
    change it.
    """

    kind = InputKind.MLIR
    suffix = "mlir"
    unit = "operation"

    def __init__(self, module: Module, checker: Checker) -> None:
        self.module, self.checker = module, checker

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
        valid = self.checker.generic_if_valid(self.text)
        return valid.encode() if valid else None

    def ways_to_write(self) -> Sequence[bytes]:
        pretty = self.checker.reader.text_after_passes(self.text)
        return [f"{text.rstrip()}\n".encode() for text in (pretty, self.text) if text]

    def entry(self, name: str | None) -> Entry | None:
        function = self.function(name)
        if function is None:
            return None
        arguments = [(value.origin, value.type) for value in arguments_of(function)]
        is_alone = len(self.module.functions()) == 1
        return Entry(None if is_alone else function.symbol, tuple(arguments))

    def function(self, name: str | None) -> Operation | None:
        """Return the function of this name, else the only public one, or None."""
        functions = self.module.functions()
        named = [function for function in functions if function.symbol == name]
        public = [
            function
            for function in functions
            if function.attribute("sym_visibility") != '"private"'
        ]
        if not named and len(public) == 1:
            named = public
        return next(iter(named), None)

    def operation_at(self, line: int) -> str | None:
        """Return what kind of operation stands on a line of the text: its name, and
        whether it reduces or gathers.

        An operation that reads a gather counts as one, because compilers fuse the two.
        None if no operation stands on the line or above it.
        """
        before = sum(1 for text in self.text.splitlines()[:line] if _HEAD.match(text))
        operations = list(self.module.root.walk())  # in the order of their lines
        if not 0 < before <= len(operations):
            return None
        operation = operations[before - 1]
        producers = [
            other
            for other in operations
            if not set(operation.operands).isdisjoint(other.results)
        ]
        inside = [
            inner.name for outer in (operation, *producers) for inner in outer.walk()
        ]
        # the operator that a frontend wraps
        words = [operation.name, (operation.attribute("name") or "").strip('"')]
        if "reduction" in (operation.attribute("iterator_types") or ""):
            words.append("reduction")
        if any(name == "tensor.extract" or name.endswith(".gather") for name in inside):
            words.append("gather")
        return " ".join(filter(None, words))


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


def mlir_program_of(candidate: ReducedCase) -> MlirProgram:
    """Return the program of a candidate that is MLIR."""
    assert isinstance(candidate.program, MlirProgram)
    return candidate.program


def module_of(candidate: ReducedCase) -> Module:
    """Return the module of a candidate that is MLIR."""
    return mlir_program_of(candidate).module


def with_module(candidate: ReducedCase, module: Module) -> ReducedCase:
    """Return the candidate with another module."""
    return candidate.with_program(
        MlirProgram(module, mlir_program_of(candidate).checker)
    )


def copied(module: Module) -> tuple[Module, Copies]:
    """Return a copy of a module that may be changed, and the new operation, block or
    value for each old one.
    """
    new: Copies = {}
    return replace(module, root=_copy(module.root, new)), new


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
    new[operation] = Operation(
        operation.name,
        copies(operation.operands),
        copies(operation.results),
        dict(operation.properties),
        dict(operation.attributes),
        regions,
        [new[block] for block in operation.successors],
        operation.position,
    )
    copy: Operation = new[operation]
    return copy


def changed(
    candidate: ReducedCase, change: Callable[[Module, Copies], None]
) -> ReducedCase:
    """Return the candidate with a change of a copy of its module. change: see
    `copied`.
    """
    module, new = copied(module_of(candidate))
    change(module, new)
    return with_module(candidate, module)


def body_of(function: Operation) -> Block | None:
    """Return the only block of a function; None unless it has one, with a
    terminator.
    """
    blocks = function.regions[0].blocks
    if len(blocks) == 1 and blocks[0].operations:
        return blocks[0]
    return None


def pieces(function: Operation) -> list[Operation]:
    """Return the operations that can be cut out: all but the terminator and those that
    a cut takes with their users.
    """
    block = body_of(function)
    if block is None:
        return []
    return [each for each in block.operations[:-1] if not _follows_its_users(each)]


def _follows_its_users(operation: Operation) -> bool:
    """Return whether an operation is a short constant or an empty tensor."""
    if operation.operands or operation.regions or len(operation.results) != 1:
        return False
    texts = operation.texts()
    return sum(map(len, texts)) < _SHORT and not any(
        "@" in text or "dense_resource" in text for text in texts
    )


def cut(
    candidate: ReducedCase,
    function: Operation,
    kept: Collection[Operation],
    returned: Sequence[Value] | None = None,
) -> ReducedCase | None:
    """Return the program with only `kept` of `function`, the constants they need and
    the symbols they refer to.

    Values that the kept operations need from others become arguments. `returned` are
    the results of the new function, by default the values that the dropped operations
    used or, when there are none, those that nothing uses.

    Returns None if the operations cannot be cut apart.
    """
    block = body_of(function)
    if block is None:
        return None
    kept = set(kept)
    chosen = _with_makers(block, kept)
    if returned is None:
        returned = _results_of(block, kept, chosen)
    operations = [each for each in block.operations[:-1] if each in chosen]
    if not operations or not (returned or any(not each.results for each in operations)):
        return None

    inside = {value for each in operations for value in each.results}
    read = [value for each in operations for value in free_values(each)]
    needed = dict.fromkeys(value for value in (*read, *returned) if value not in inside)
    old = [value for value in block.arguments if value in needed]
    arguments = list(dict.fromkeys([*old, *needed]))  # the old ones first

    def keep(module: Module, new: Copies) -> None:
        smaller: Operation = new[function]
        end: Operation = new[block.operations[-1]]
        body: Block = new[block]
        _keep_attributes(smaller, "arg_attrs", block.arguments, arguments)
        _keep_attributes(smaller, "res_attrs", block.operations[-1].operands, returned)
        for name in ("sym_visibility", "tied_operands"):
            smaller.inherent.pop(name, None)
        body.arguments = [new[value] for value in arguments]
        body.operations = [*(new[each] for each in operations), end]
        end.operands = [new[value] for value in returned]
        update_function_type(smaller)
        _keep_symbols_of(module, smaller)

    return changed(candidate, keep)


def _keep_attributes(
    function: Operation, name: str, before: Sequence[Value], after: Collection[Value]
) -> None:
    """Update the attributes that a function has for each argument or result."""
    texts = array_elements(function.inherent.pop(name, None))
    text_of = dict(zip(before, texts, strict=False))
    new = [text_of.get(value, "{}") for value in after]
    if any(text != "{}" for text in new):
        function.inherent[name] = f"[{', '.join(new)}]"


def _with_makers(block: Block, kept: Collection[Operation]) -> set[Operation]:
    """Return these operations, the constants that they need, and the operations whose
    values no argument can carry.
    """
    maker = {value: each for each in block.operations for value in each.results}
    chosen, waiting = set(kept), list(kept)
    while waiting:
        for value in free_values(waiting.pop()):
            operation = maker.get(value)
            if operation is None or operation in chosen:
                continue
            if _follows_its_users(operation) or not _CROSSABLE.match(value.type):
                chosen.add(operation)
                waiting.append(operation)
    return chosen


def _results_of(
    block: Block, kept: Collection[Operation], chosen: Collection[Operation]
) -> list[Value]:
    """Return the results of `kept` that the operations outside `chosen` use; without
    any, those that nothing uses, or the last one.
    """
    used, used_outside = set[Value](), set[Value]()
    results = list[Value]()
    for operation in block.operations:
        read = free_values(operation)
        used.update(read)
        if operation not in chosen:
            used_outside.update(read)
        if operation in kept:
            results += operation.results
    results = [value for value in results if _CROSSABLE.match(value.type)]
    outside = [value for value in results if value in used_outside]
    return outside or [value for value in results if value not in used] or results[-1:]


def _keep_symbols_of(module: Module, function: Operation) -> None:
    """Drop the module's symbols that a function does not refer to, directly or not."""
    by_name = {each.symbol: each for each in module.body.operations if each.symbol}
    needed, waiting = {function}, [function]
    while waiting:
        for operation in waiting.pop().walk():
            types = (value.type for value in operation.results)
            for text in (*operation.texts(), *types):
                for symbol in map(by_name.get, symbols(text)):
                    if symbol and symbol not in needed:
                        needed.add(symbol)
                        waiting.append(symbol)
    module.body.operations = [each for each in module.body.operations if each in needed]


def update_function_type(function: Operation) -> None:
    """Derive a function's type attribute from its block."""
    block = body_of(function)
    if block:
        arguments, results = block.arguments, block.operations[-1].operands
        set_function_types(
            function,
            [value.type for value in arguments],
            [value.type for value in results],
        )
