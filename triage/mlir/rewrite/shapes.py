"""Dimensions of shaped types, and a module with static shapes.

Every unknown dimension of the arguments becomes a number. The toolchain's own canonicalization propagates it through the
program; `propagate_shapes` does so where canonicalization does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from triage.mlir import Block, Module, Operation, Value, parse_module
from triage.mlir.tree import arguments_of, function_types, set_function_types, symbols

DYNAMIC = -1
CANONICALIZE = ("--canonicalize", "--cse")
_SHAPED = re.compile(r"((?:tensor|vector|memref)<)((?:(?:\d+|\?)x)+)(?=[a-z!])")
_VTENSOR = re.compile(r"(!torch\.vtensor<)\[([\d?,\s]+)\]")
_SPLIT = re.compile(r"\?x(\d+)(?=x)")
_CAST = "tensor.cast"
_TENSOR = "tensor<"
_ELEMENTWISE = ("arith.", "math.")  # the result of these operations has the shape of the operands
_SIZES = (64, 128, 256, 1024)  # tried in order: reshapes and divisibility in the program exclude some
_MAX_CANDIDATES = 16


def dimensions(type_: str) -> list[int] | None:
    """Return the dimensions of a shaped type, DYNAMIC for `?`; None for rank 0 and other types."""
    if found := _SHAPED.match(type_):
        return [DYNAMIC if text == "?" else int(text) for text in found[2].split("x")[:-1]]
    if found := _VTENSOR.match(type_):
        return [DYNAMIC if text.strip() == "?" else int(text) for text in found[2].split(",")]
    return None


def reshaped(type_: str, numbers: list[int]) -> str:
    """Return a shaped type with other dimensions, as many as it has."""
    texts = ["?" if number == DYNAMIC else str(number) for number in numbers]
    if found := _SHAPED.match(type_):
        return f"{found[1]}{''.join(f'{text}x' for text in texts)}{type_[found.end() :]}"
    found = _VTENSOR.match(type_)
    assert found
    return f"{found[1]}[{','.join(texts)}]{type_[found.end() :]}"


def static_candidates(text: str) -> Iterator[tuple[Module, str]]:
    """Yield the module with static argument shapes, and a description of the sizes.

    First all unknown dimensions get the same number. Then one argument type gets a multiple, because another may hold the
    same dimension split in two. The caller checks which candidates are valid.

    Args:
        text: The module in generic form.
    """
    functions = _fixable(parse_module(text))
    types = list(dict.fromkeys(value.type for function in functions for value in _open_arguments(function)))
    description = "unknown dimensions of the arguments set to"
    plans = [(dict.fromkeys(types, size), f"{description} {size}") for size in _SIZES]
    for type_ in types:
        factors = {int(factor) for other in types if other != type_ for factor in _SPLIT.findall(other)}
        for size in sorted(_SIZES[0] * factor for factor in factors):
            sizes = {**dict.fromkeys(types, _SIZES[0]), type_: size}
            plans.append((sizes, f"{description} {_SIZES[0]}, of {type_} {size}"))
    for sizes, what in plans[:_MAX_CANDIDATES] if types else []:
        module = parse_module(text)
        fix_arguments(module, sizes)
        yield module, what


def fix_arguments(module: Module, sizes: Mapping[str, int] | int) -> bool:
    """Give arguments static shapes and cast them back to the type that the body expects.

    Args:
        module: Changed in place.
        sizes: The number for unknown dimensions, by argument type, or one for all.

    Returns:
        Whether any argument changed.
    """
    changed = False
    for function in _fixable(module):
        entry, types, unknown = function.regions[0].blocks[0], function_types(function), _open_arguments(function)
        casts = []
        for index, argument in enumerate(entry.arguments):
            size = sizes if isinstance(sizes, int) else sizes.get(argument.type)
            if size is not None and argument in unknown:
                numbers = [size if number == DYNAMIC else number for number in dimensions(argument.type) or ()]
                entry.arguments[index] = Value(reshaped(argument.type, numbers))
                # The old value becomes the result of the cast, so that its users stay as they are.
                casts.append(Operation(_CAST, [entry.arguments[index]], [argument]))
        if casts and types:
            entry.operations[:0] = casts
            set_function_types(function, [value.type for value in entry.arguments], types[1])
            changed = True
    return changed


def propagate_shapes(module: Module) -> bool:
    """Propagate static shapes through elementwise operations and to the results of functions.

    Returns:
        Whether anything changed, so that another canonicalization may find more.
    """
    casts = {
        operation.results[0]: operation.operands[0]
        for operation in module.walk()
        if operation.name == _CAST and "?" not in operation.operands[0].type
    }
    changed = [_through_elementwise(block, casts) for block in module.blocks()]
    _fix_results(module, casts)
    return any(changed)


def _through_elementwise(block: Block, casts: dict[Value, Value]) -> bool:
    """Compute elementwise operations on static shapes; casts of the new results replace the old ones."""
    operations: list[Operation] = []
    for operation in block.operations:
        operations.append(operation)
        known = next((casts[value] for value in operation.operands if value in casts), None)
        elementwise = operation.name.startswith(_ELEMENTWISE)
        if known is None or not elementwise or not any("?" in value.type for value in operation.results):
            continue
        shape = dimensions(known.type)
        assert shape
        for index, value in enumerate(operation.operands):
            if value in casts:
                operation.operands[index] = casts[value]
            elif "?" in value.type:
                operation.operands[index] = Value(reshaped(value.type, shape))
                operations.insert(-1, Operation(_CAST, [value], [operation.operands[index]]))
        for index, value in enumerate(operation.results):
            operation.results[index] = casts[value] = Value(reshaped(value.type, shape))
            operations.append(Operation(_CAST, [operation.results[index]], [value]))
    changed = len(operations) > len(block.operations)
    block.operations = operations
    return changed


def _fix_results(module: Module, casts: Mapping[Value, Value]) -> None:
    for function in module.functions():
        types, blocks = function_types(function), function.regions[0].blocks
        last = [block.operations[-1] for block in blocks if block.operations]
        ends = [operation for operation in last if operation.name.endswith(".return")]
        if types is None or len(ends) != 1 or len(ends[0].operands) != len(types[1]):
            continue
        ends[0].operands = [casts.get(value, value) for value in ends[0].operands]
        set_function_types(function, types[0], [value.type for value in ends[0].operands])


def _fixable(module: Module) -> list[Operation]:
    """Return the functions that are only called from outside: calls to others would no longer fit."""
    called = {name for operation in module.walk() for text in operation.texts() for name in symbols(text)}
    functions = [function for function in module.functions() if function.symbol not in called]
    return [
        function
        for function in functions
        if (types := function_types(function)) and len(types[0]) == len(arguments_of(function))
    ]


def _open_arguments(function: Operation) -> list[Value]:
    """Return the tensor arguments with an unknown dimension."""
    return [
        value
        for value in arguments_of(function)
        if value.type.startswith(_TENSOR) and DYNAMIC in (dimensions(value.type) or ())
    ]
