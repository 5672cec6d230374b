"""MLIR modules as programs to reduce: copies, replaced values, and cuts of a function
as programs of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from triage.execution.mlir_tools import Reader
from triage.mlir import Block, Module, Operation, Region, Value, print_module
from triage.mlir.rewrite import replace_results
from triage.mlir.tree import (
    arguments_of,
    array_elements,
    free_values,
    set_function_types,
    symbols,
)
from triage.model.case import InputKind
from triage.reduce.program import Entry, ReducedCase, Reducible

Values = dict[Value, Value]
# Types that the arguments and results of an exported function can have in every
# version.
_CROSSABLE = re.compile(
    r"tensor<|!torch\.vtensor<|complex<|[us]?i\d+$|index$|b?f\d+|!hal\."
)
_SHORT = 256  # characters of attributes; longer constants become inputs
_PER_FUNCTION = (
    "arg_attrs",
    "res_attrs",
    "function_type",
    "sym_visibility",
    "tied_operands",
    "sym_name",
)
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

    def content_if_valid(self) -> bytes | None:
        return self._canonical

    @cached_property
    def _canonical(self) -> bytes | None:
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
        arguments = tuple(
            (value.origin, value.type) for value in arguments_of(function)
        )
        is_alone = len(self.module.functions()) == 1
        return Entry(None if is_alone else function.symbol, arguments)

    def function(self, name: str | None) -> Operation | None:
        """Return the function of this name, else the only public one, or None."""
        functions = self.module.functions()
        public = [
            function
            for function in functions
            if function.attribute("sym_visibility") != '"private"'
        ]
        named = [function for function in functions if function.symbol == name]
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
    smaller programs.

    Take over the numbers from `before`, the module as it was, if it is passed.
    """
    old_functions = before.functions() if before else []
    arguments_by_function = {
        function.symbol: arguments_of(function) for function in old_functions
    }
    for function in module.functions():
        old = arguments_by_function.get(function.symbol, [])
        for number, value in enumerate(arguments_of(function)):
            if before is None:
                value.origin = (function.symbol, number)
            elif number < len(old):
                value.origin = old[number].origin
            else:
                value.origin = None


def program_of(candidate: ReducedCase) -> MlirProgram:
    """Return the program of a candidate that is MLIR."""
    assert isinstance(candidate.program, MlirProgram)
    return candidate.program


def module_of(candidate: ReducedCase) -> Module:
    """Return the module of a candidate that is MLIR."""
    return program_of(candidate).module


def with_module(candidate: ReducedCase, module: Module) -> ReducedCase:
    """Return the candidate with another module."""
    return ReducedCase(
        MlirProgram(module, program_of(candidate).checker), candidate.case
    )


def copy_operation(
    operation: Operation, values: Values, blocks: Mapping[Block, Block] | None = None
) -> Operation:
    """Copy an operation. Operands are looked up in `values` (kept when missing);
    results and inner values are added.
    """
    copy = Operation(
        operation.name,
        [values.get(value, value) for value in operation.operands],
        properties=dict(operation.properties),
        attributes=dict(operation.attributes),
        successors=[(blocks or {}).get(block, block) for block in operation.successors],
        position=operation.position,
    )
    for region in operation.regions:
        inner = {
            block: Block([_copy_value(value, values) for value in block.arguments])
            for block in region.blocks
        }
        # a value may be used in a block that stands before its definition
        if len(inner) > 1:
            for block in inner:
                for other in block.operations:
                    for value in other.results:
                        _copy_value(value, values)
        for block, new in inner.items():
            new.operations = [
                copy_operation(other, values, inner) for other in block.operations
            ]
        copy.regions.append(Region(list(inner.values())))
    copy.results = [_copy_value(value, values) for value in operation.results]
    return copy


def _copy_value(value: Value, values: Values) -> Value:
    if value not in values:
        values[value] = Value(value.type, value.origin)
    return values[value]


def copy_module(module: Module) -> tuple[Module, Values]:
    """Return a copy that may be changed, and the new value for each old one."""
    values: Values = {}
    return Module(
        copy_operation(module.root, values), module.aliases, module.trailer
    ), values


def without_results(module: Module, replacements: Mapping[Value, Value]) -> Module:
    """Return a copy in which other values replace some results, without the operations
    that made these.
    """
    copy, values = copy_module(module)
    replace_results(
        copy, {values[value]: values.get(by, by) for value, by in replacements.items()}
    )
    return copy


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
    `cut` copies to their users.
    """
    block = body_of(function)
    if block:
        return [
            operation
            for operation in block.operations[:-1]
            if not _is_copied(operation)
        ]
    return []


def _is_copied(operation: Operation) -> bool:
    """Return whether `cut` copies an operation to its users: short constants and empty
    tensors.
    """
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
    module, block = module_of(candidate), body_of(function)
    if block is None:
        return None
    kept = set(kept)
    chosen = _with_makers(block, kept)
    operations = [
        operation for operation in block.operations[:-1] if operation in chosen
    ]
    if returned is None:
        returned = _results_of(block, kept, chosen)
    if not operations or (
        not returned and all(operation.results for operation in operations)
    ):
        return None
    smaller = _function(function, block, operations, returned)
    body = Block(
        list(module.body.arguments),
        [*_symbols_used(module, function, smaller), smaller],
    )
    root = Operation(
        module.root.name,
        properties=dict(module.root.properties),
        attributes=dict(module.root.attributes),
        regions=[Region([body])],
        position=module.root.position,
    )
    return with_module(candidate, replace(module, root=root))


def _with_makers(block: Block, kept: Collection[Operation]) -> set[Operation]:
    """Return these operations, the constants that they need, and the operations whose
    values no argument can carry.
    """
    maker = {
        value: operation
        for operation in block.operations
        for value in operation.results
    }
    chosen, waiting = set(kept), list(kept)
    while waiting:
        for value in free_values(waiting.pop()):
            operation = maker.get(value)
            if (
                operation
                and operation not in chosen
                and (_is_copied(operation) or not _CROSSABLE.match(value.type))
            ):
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


def _function(
    function: Operation,
    block: Block,
    operations: list[Operation],
    returned: Sequence[Value],
) -> Operation:
    """Return the function with only these operations. What they need from others
    becomes an argument.
    """
    arguments = _arguments_for(block, operations, returned)
    values: Values = {}
    body = Block([_copy_value(value, values) for value in arguments])
    body.operations = [copy_operation(operation, values) for operation in operations]
    end = block.operations[-1]
    body.operations.append(
        Operation(
            end.name,
            [values[value] for value in returned],
            attributes=dict(end.attributes),
            position=end.position,
        )
    )
    properties = {
        "function_type": "",
        "sym_name": function.attribute("sym_name") or '"reduced"',
    }
    for name, before, after in (
        ("arg_attrs", block.arguments, arguments),
        ("res_attrs", end.operands, returned),
    ):
        text_of = dict(
            zip(before, array_elements(function.attribute(name)), strict=False)
        )
        texts = [text_of.get(value, "{}") for value in after]
        if any(text != "{}" for text in texts):
            properties[name] = f"[{', '.join(texts)}]"
    smaller = Operation(
        function.name,
        properties=properties | _without_per_value(function.properties),
        attributes=_without_per_value(function.attributes),
        regions=[Region([body])],
        position=function.position,
    )
    update_function_type(smaller)
    return smaller


def _arguments_for(
    block: Block, operations: Sequence[Operation], returned: Sequence[Value]
) -> list[Value]:
    """Return what operations and results need from elsewhere, the old arguments
    first.
    """
    inside = {value for operation in operations for value in operation.results}
    read = [value for operation in operations for value in free_values(operation)]
    needed = dict.fromkeys(value for value in (*read, *returned) if value not in inside)
    old = [value for value in block.arguments if value in needed]
    return list(dict.fromkeys([*old, *needed]))


def _without_per_value(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return those attributes of a function that do not follow from its values."""
    return {
        name: text for name, text in attributes.items() if name not in _PER_FUNCTION
    }


def _symbols_used(
    module: Module, function: Operation, smaller: Operation
) -> Iterator[Operation]:
    """Return the module's other symbols that the new function refers to, directly or
    not, in their old order.
    """
    by_name = {
        symbol.symbol: symbol
        for symbol in module.body.operations
        if symbol.symbol and symbol is not function
    }
    needed: set[Operation] = set()
    waiting = [smaller]
    while waiting:
        for operation in waiting.pop().walk():
            for text in (
                *operation.texts(),
                *(value.type for value in operation.results),
            ):
                for symbol in map(by_name.get, symbols(text)):
                    if symbol and symbol not in needed:
                        needed.add(symbol)
                        waiting.append(symbol)
    return (symbol for symbol in module.body.operations if symbol in needed)


def update_function_type(function: Operation) -> None:
    """Derive a function's type attribute from its block."""
    block = body_of(function)
    if block:
        results = block.operations[-1].operands
        set_function_types(
            function,
            [value.type for value in block.arguments],
            [value.type for value in results],
        )
