"""Rewrite an MLIR module of any dialect to static shapes.

Every unknown dimension of the arguments becomes a number. The toolchain's own
canonicalization propagates it through the program, and `return_static_values` to the
results of functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from triage.mlir import Module, Operation, Value, parse_module
from triage.mlir.tree import arguments_of, function_types, set_function_types, symbols

DYNAMIC = -1
CANONICALIZE = ("--canonicalize", "--cse")
_SHAPED = re.compile(r"((?:tensor|vector|memref)<)((?:(?:\d{1,18}|\?)x)+)(?=[a-z!])")
_VTENSOR = re.compile(r"(!torch\.vtensor<)\[([\d?,\s]+)\]")
_SPLIT_DIMENSION = re.compile(r"\?x(\d{1,18})(?=x)")
_MOST_SPLITS = 12
_CAST = "tensor.cast"
# tried in order: reshapes and divisibility in the program exclude some
_SIZES = (64, 128, 256, 1024)


def dimensions(type_: str) -> list[int] | None:
    """Return the dimensions of a shaped type, with DYNAMIC for `?`. Returns None for
    other types, and for rank 0.
    """
    shaped, vtensor = _SHAPED.match(type_), _VTENSOR.match(type_)
    if shaped:
        texts = shaped[2].split("x")[:-1]
    elif vtensor:
        texts = vtensor[2].split(",")
    else:
        return None
    return [DYNAMIC if text.strip() == "?" else int(text) for text in texts]


def reshaped(type_: str, numbers: list[int]) -> str:
    """Return a shaped type with other dimensions of the same rank."""
    texts = ["?" if number == DYNAMIC else str(number) for number in numbers]
    shaped = _SHAPED.match(type_)
    if shaped:
        return f"{shaped[1]}{'x'.join(texts)}x{type_[shaped.end() :]}"
    return _VTENSOR.sub(lambda match: f"{match[1]}[{','.join(texts)}]", type_, count=1)


def static_candidates(text: str) -> Iterator[tuple[Module, str]]:
    """Yield modules with static shapes of arguments, made from a text in generic form,
    and describe the sizes. Not all are valid programs.

    First, all unknown dimensions get the same size. Then one type of arguments gets a
    multiple of it, because another type may split the same dimension in two.
    """
    what, smallest = "unknown dimensions of the arguments set to", _SIZES[0]
    for size in _SIZES:
        module = parse_module(text)
        if set_static_arguments(module, size, {}):
            yield module, f"{what} {size}"
    functions = _functions_never_called(parse_module(text))
    types = {value for _, arguments, _ in functions for value in arguments}
    split = {
        (type_, int(factor))
        for type_ in types
        for other in types - {type_}
        for factor in _SPLIT_DIMENSION.findall(other)
        if type_.startswith("tensor<") and "?" in type_ and other.startswith("tensor<")
    }
    for type_, factor in sorted(split)[:_MOST_SPLITS]:
        module, size = parse_module(text), smallest * factor
        if set_static_arguments(module, smallest, {type_: size}):
            yield module, f"{what} {smallest}, of {type_} {size}"


def set_static_arguments(module: Module, size: int, others: Mapping[str, int]) -> bool:
    """Give arguments static shapes, in place, and cast them to the types that the body
    uses. Return whether any argument changed. `size` is what unknown dimensions become,
    `others` what those of some types become.
    """
    changed = False
    for function, _, results in _functions_never_called(module):
        block = function.regions[0].blocks[0]
        casts: list[Operation] = []
        for index, argument in enumerate(block.arguments):
            numbers = dimensions(argument.type) or []
            if not argument.type.startswith("tensor<") or DYNAMIC not in numbers:
                continue
            wanted = others.get(argument.type, size)
            sizes = [wanted if number == DYNAMIC else number for number in numbers]
            static = Value(reshaped(argument.type, sizes), argument.origin)
            block.arguments[index] = static
            # The old value becomes the result of the cast, so that its users stay as
            # they are.
            casts.append(Operation(_CAST, [static], [argument]))
        if casts:
            block.operations[:0] = casts
            types = [value.type for value in block.arguments]
            set_function_types(function, types, results)
            changed = True
    return changed


def return_static_values(module: Module) -> None:
    """Change functions in place: if a value of static shape is cast and then returned,
    return the value itself.
    """
    casts = {
        operation.results[0]: operation.operands[0]
        for operation in module.walk()
        if operation.name == _CAST and "?" not in operation.operands[0].type
    }
    for function, arguments, results in _functions_never_called(module):
        returns = [
            block.operations[-1]
            for block in function.regions[0].blocks
            if block.operations and block.operations[-1].name.endswith(".return")
        ]
        if len(returns) == 1 and len(returns[0].operands) == len(results):
            operands = returns[0].operands
            operands[:] = [casts.get(value, value) for value in operands]
            set_function_types(function, arguments, [value.type for value in operands])


def _functions_never_called(
    module: Module,
) -> Iterator[tuple[Operation, list[str], list[str]]]:
    """Yield the functions that the module does not call, so that their types may
    change, with these types.
    """
    called = {
        name
        for operation in module.walk()
        for text in operation.texts()
        for name in symbols(text)
    }
    for function in module.functions():
        types = function_types(function)
        if types is None or function.symbol in called:
            continue
        if len(types[0]) == len(arguments_of(function)):
            yield function, *types


def replace_results(module: Module, replaced: Mapping[Value, Value]) -> None:
    """Use other values in place of results, and remove the operations whose first
    result is replaced. `replaced` maps results to values.
    """
    for block in module.blocks():
        block.operations = [
            operation
            for operation in block.operations
            if not (operation.results and operation.results[0] in replaced)
        ]
    for operation in module.walk():
        for index, value in enumerate(operation.operands):
            # Replacements are replaced as well. They may form a circle.
            for _ in range(len(replaced)):
                value = replaced.get(value, value)
                if value not in replaced:
                    break
            operation.operands[index] = value
