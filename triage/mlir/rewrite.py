"""Rewrites of an MLIR module that need no dialect's semantics: static shapes and 32 bit
floats.

For static shapes, every unknown dimension of the arguments becomes a number. The
toolchain's own canonicalization propagates it through the program, and `fix_results` to
the results of functions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from triage.mlir import Module, Operation, Value, parse_module
from triage.mlir.tree import arguments_of, function_types, set_function_types, symbols

DYNAMIC = -1
CANONICALIZE = ("--canonicalize", "--cse")
_SHAPED = re.compile(r"((?:tensor|vector|memref)<)((?:(?:\d{1,18}|\?)x)+)(?=[a-z!])")
_VTENSOR = re.compile(r"(!torch\.vtensor<)\[([\d?,\s]+)\]")
_SPLIT = re.compile(r"\?x(\d{1,18})(?=x)")
_CAST = "tensor.cast"
# tried in order: reshapes and divisibility in the program exclude some
_SIZES = (64, 128, 256, 1024)
_MAX_CANDIDATES = 16


def dimensions(type_: str) -> list[int] | None:
    """Return the dimensions of a shaped type of rank 1 or more, DYNAMIC for `?`."""
    found = _SHAPED.match(type_)
    if found:
        texts = found[2].split("x")[:-1]
    elif found := _VTENSOR.match(type_):
        texts = found[2].split(",")
    else:
        return None
    return [DYNAMIC if text.strip() == "?" else int(text) for text in texts]


def reshaped(type_: str, numbers: list[int]) -> str:
    """Return a shaped type with other dimensions, as many as it has."""
    texts = ["?" if number == DYNAMIC else str(number) for number in numbers]
    found = _SHAPED.match(type_)
    if found:
        return (
            f"{found[1]}{''.join(f'{text}x' for text in texts)}{type_[found.end() :]}"
        )
    return _VTENSOR.sub(lambda found: f"{found[1]}[{','.join(texts)}]", type_, count=1)


def static_candidates(text: str) -> Iterator[tuple[Module, str]]:
    """Yield a module in generic form with static argument shapes, and a description of
    the sizes.

    First all unknown dimensions get the same number. Then one argument type gets a
    multiple, because another may hold the same dimension split in two. The caller
    checks which candidates are valid.
    """
    arguments = (
        value
        for function in _fixable(parse_module(text))
        for value in arguments_of(function)
    )
    types = list(dict.fromkeys(value.type for value in arguments if _is_open(value)))
    what = "unknown dimensions of the arguments set to"
    plans: list[tuple[int, dict[str, int], str]] = [
        (size, {}, f"{what} {size}") for size in _SIZES
    ]
    for type_ in types:
        factors = {
            int(factor)
            for other in types
            if other != type_
            for factor in _SPLIT.findall(other)
        }
        sizes = sorted(_SIZES[0] * factor for factor in factors)
        plans += [
            (_SIZES[0], {type_: size}, f"{what} {_SIZES[0]}, of {type_} {size}")
            for size in sizes
        ]
    for size, others, description in plans[:_MAX_CANDIDATES] if types else []:
        module = parse_module(text)
        fix_arguments(module, size, others)
        yield module, description


def fix_arguments(module: Module, size: int, others: Mapping[str, int]) -> bool:
    """Give arguments static shapes and cast them back to the type that the body
    expects.

    `size` is the number for unknown dimensions, `others` that of some argument types.
    Returns whether any argument changed.
    """
    changed = False
    for function in _fixable(module):
        block, casts = function.regions[0].blocks[0], []
        for index, argument in enumerate(block.arguments):
            if _is_open(argument):
                wanted = others.get(argument.type, size)
                numbers = [
                    wanted if number == DYNAMIC else number
                    for number in dimensions(argument.type) or ()
                ]
                block.arguments[index] = Value(
                    reshaped(argument.type, numbers), argument.origin
                )
                # The old value becomes the result of the cast, so that its users stay
                # as they are.
                casts.append(Operation(_CAST, [block.arguments[index]], [argument]))
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


def fix_results(module: Module) -> None:
    """Return values of static shape where these are cast before functions return
    them.
    """
    casts = {
        each.results[0]: each.operands[0]
        for each in module.walk()
        if each.name == _CAST and "?" not in each.operands[0].type
    }
    for function in _fixable(module):
        last = [
            block.operations[-1]
            for block in function.regions[0].blocks
            if block.operations
        ]
        ends = [operation for operation in last if operation.name.endswith(".return")]
        types = function_types(function)
        if types and len(ends) == 1 and len(ends[0].operands) == len(types[1]):
            ends[0].operands = [casts.get(value, value) for value in ends[0].operands]
            set_function_types(
                function, types[0], [value.type for value in ends[0].operands]
            )


def _fixable(module: Module) -> list[Operation]:
    """Return the functions that are only called from outside: calls to others would no
    longer fit.
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


WIDE = "f32"
CONVERTIBLE = {"f16": "<f2", "bf16": "<u2", "f64": "<f8"}
"""The types whose constants are converted, in whatever form they are written, with
their formats in numpy.
"""

_CASTS = ("arith.extf", "arith.truncf")
# A type alone or as an element type, not as a part of a name.
_FLOAT = re.compile(r"(?:(?<=[\d?]x)|(?<![\w.@#!%]))(f16|bf16|f64|f8E\w+)(?!\w)")
_CONSTANT = re.compile(r" : (?:(?:tensor|vector)<[\d?x]*)?(f16|bf16|f64)>?$")
_STRING = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")')
_BITS = re.compile(r"(?<![\w.])0x([0-9A-Fa-f]+)(?!\w)")
_BLOB = re.compile(r'"0x([0-9A-Fa-f]+)"')


def float_types(module: Module) -> list[str]:
    """Return the float types other than f32 that the module computes in."""
    texts = dict.fromkeys(
        [*module.aliases.values(), *(value.type for value in module.values())]
    )
    return list(dict.fromkeys(name for text in texts for name in _FLOAT.findall(text)))


def widen_floats(module: Module, types: Collection[str]) -> bool:
    """Replace some of the module's `float_types` with f32, in place; return whether
    anything changed.

    A module that keeps constants of such a type as resources is left alone. Constants
    of 8 bit types that are written as bits are not converted; the result is then
    invalid.
    """
    resources = [
        text
        for operation in module.walk()
        for text in operation.texts()
        if "dense_resource<" in text
    ]
    if not types or any(
        name in types for text in resources for name in _FLOAT.findall(text)
    ):
        return False
    for value in module.values():
        value.type = _widened(value.type, types)
    for operation in module.walk():
        for attributes in (operation.properties, operation.attributes):
            attributes.update(
                {key: _widened(text, types) for key, text in attributes.items()}
            )
    module.aliases = {
        alias: _widened(text, types) for alias, text in module.aliases.items()
    }
    casts = [
        each
        for each in module.walk()
        if each.name in _CASTS and each.operands[0].type == each.results[0].type
    ]
    replace_results(module, {cast.results[0]: cast.operands[0] for cast in casts})
    return True


def replace_results(module: Module, replaced: Mapping[Value, Value]) -> None:
    """Let other values replace results, in place, and drop the operations that made
    these.
    """
    for block in module.blocks():
        block.operations = [
            each
            for each in block.operations
            if not (each.results and each.results[0] in replaced)
        ]
    for operation in module.walk():
        for index, value in enumerate(operation.operands):
            # replacements of replacements, which may form a circle
            for _ in range(len(replaced)):
                value = replaced.get(value, value)
                if value not in replaced:
                    break
            operation.operands[index] = value


def _widened(text: str, types: Collection[str]) -> str:
    """Return a type or an attribute with f32 for some types, the numbers of constants
    that are written as bits included.
    """
    constant = _CONSTANT.search(text)
    if constant and constant[1] in types:
        name = constant[1]
        text = _BLOB.sub(
            lambda blob: f'"0x{_as_f32(bytes.fromhex(blob[1]), name).hex().upper()}"',
            text,
        )
        if '"' not in text:
            text = _BITS.sub(
                lambda bits: (
                    "0x"
                    + _as_f32(bytes.fromhex(bits[1])[::-1], name)[::-1].hex().upper()
                ),
                text,
            )
    parts = _STRING.split(text)
    parts[::2] = [
        _FLOAT.sub(lambda found: WIDE if found[1] in types else found[0], part)
        for part in parts[::2]
    ]
    return "".join(parts)


def _as_f32(raw: bytes, name: str) -> bytes:
    """Return numbers as 32 bits each, least byte first; one that is too large becomes
    infinite.
    """
    numbers = np.frombuffer(raw, CONVERTIBLE[name])
    if name == "bf16":  # the upper half of a 32 bit float
        return (numbers.astype("<u4") << 16).tobytes()
    with np.errstate(over="ignore"):
        return numbers.astype("<f4").tobytes()
