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
_CAST = "tensor.cast"
# tried in order: reshapes and divisibility in the program exclude some
_SIZES = (64, 128, 256, 1024)
_MAX_CANDIDATES = 16


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
    return _VTENSOR.sub(lambda found: f"{found[1]}[{','.join(texts)}]", type_, count=1)


def static_candidates(text: str) -> Iterator[tuple[Module, str]]:
    """Yield modules with static shapes of arguments, made from a text in generic form,
    and describe the sizes. Not all are valid programs.

    First, all unknown dimensions get the same size. Then one type of arguments gets a
    multiple of it, because another type may split the same dimension in two.
    """
    arguments = (
        value
        for function in _functions_never_called(parse_module(text))
        for value in arguments_of(function)
    )
    types = list(dict.fromkeys(value.type for value in arguments if _is_open(value)))
    if not types:
        return
    what = "unknown dimensions of the arguments set to"
    smallest = _SIZES[0]
    plans: list[tuple[int, dict[str, int], str]] = [
        (size, {}, f"{what} {size}") for size in _SIZES
    ]
    for type_ in types:
        factors = {
            int(factor)
            for other in types
            if other != type_
            for factor in _SPLIT_DIMENSION.findall(other)
        }
        for factor in sorted(factors):
            size = smallest * factor
            description = f"{what} {smallest}, of {type_} {size}"
            plans.append((smallest, {type_: size}, description))
    for size, others, description in plans[:_MAX_CANDIDATES]:
        module = parse_module(text)
        set_static_arguments(module, size, others)
        yield module, description


def set_static_arguments(module: Module, size: int, others: Mapping[str, int]) -> bool:
    """Give arguments static shapes, in place, and cast them to the types that the body
    uses. Return whether any argument changed.

    Args:
        module: The module.
        size: What unknown dimensions become.
        others: Type of an argument -> what its unknown dimensions become instead.
    """
    changed = False
    for function in _functions_never_called(module):
        block, casts = function.regions[0].blocks[0], []
        for index, argument in enumerate(block.arguments):
            if _is_open(argument):
                wanted = others.get(argument.type, size)
                numbers = [
                    wanted if number == DYNAMIC else number
                    for number in dimensions(argument.type) or ()
                ]
                static = Value(reshaped(argument.type, numbers), argument.origin)
                block.arguments[index] = static
                # The old value becomes the result of the cast, so that its users stay
                # as they are.
                casts.append(Operation(_CAST, [static], [argument]))
        types = function_types(function)
        if casts and types:
            block.operations[:0] = casts
            set_function_types(
                function, [value.type for value in block.arguments], types[1]
            )
            changed = True
    return changed


def _is_open(value: Value) -> bool:
    """Return whether a value is a tensor with an unknown dimension."""
    return value.type.startswith("tensor<") and DYNAMIC in (
        dimensions(value.type) or ()
    )


def return_static_values(module: Module) -> None:
    """Change functions in place: if a value of static shape is cast and then returned,
    return the value itself.
    """
    casts = {
        each.results[0]: each.operands[0]
        for each in module.walk()
        if each.name == _CAST and "?" not in each.operands[0].type
    }
    for function in _functions_never_called(module):
        last = [
            block.operations[-1]
            for block in function.regions[0].blocks
            if block.operations
        ]
        returns = [each for each in last if each.name.endswith(".return")]
        types = function_types(function)
        if not types or len(returns) != 1:
            continue
        arguments, results = types
        operands = returns[0].operands
        if len(operands) == len(results):
            operands[:] = [casts.get(value, value) for value in operands]
            set_function_types(function, arguments, [value.type for value in operands])


def _functions_never_called(module: Module) -> list[Operation]:
    """Return the functions that the module does not call, so that their types may
    change.
    """
    called = {
        name
        for operation in module.walk()
        for text in operation.texts()
        for name in symbols(text)
    }
    found = []
    for function in module.functions():
        types = function_types(function)
        if (
            function.symbol not in called
            and types
            and len(types[0]) == len(arguments_of(function))
        ):
            found.append(function)
    return found


def replace_results(module: Module, replaced: Mapping[Value, Value]) -> None:
    """Use other values in place of results, and remove the operations whose first
    result is replaced. `replaced` maps results to values.
    """
    for block in module.blocks():
        block.operations = [
            each
            for each in block.operations
            if not (each.results and each.results[0] in replaced)
        ]
    for operation in module.walk():
        for index, value in enumerate(operation.operands):
            # Replacements are replaced as well. They may form a circle.
            for _ in range(len(replaced)):
                value = replaced.get(value, value)
                if value not in replaced:
                    break
            operation.operands[index] = value
