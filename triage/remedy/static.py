"""A program for one size: every unknown dimension of its arguments made a number. The toolchain's own canonicalization carries
the number on into the program, so that nothing of any dialect has to be known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from triage.mlir import Block, Module, Operation, Value, parse_module
from triage.mlir.tree import symbols
from triage.remedy.signature import sides_of, with_sides

PROPAGATED = ("--canonicalize", "--cse")
_DIMENSIONS = re.compile(r"tensor<((?:(?:\d+|\?)x)+)")
_SPLIT = re.compile(r"\?x(\d+)(?=x)")
_CAST = "tensor.cast"
_ELEMENTWISE = ("arith.", "math.")  # dialects whose operations give a tensor the shape of their operands
_SIZES = (64, 128, 256, 1024)  # the first that every reshape and divisibility in the program allows
_MOST = 16  # programs that are looked at


def static_twins(text: str) -> Iterator[tuple[Module, str]]:
    """The program with known sizes, and in words which: the same for all at first, then one kind of argument a multiple, for
    another may have the same dimension split in two. The caller sees which of them is valid.
    """
    kinds = [kind for function in _open(parse_module(text)) for kind in dict.fromkeys(_arguments(function)) if "?" in kind]
    whole = "every unknown dimension of its arguments made"
    plans = [(dict.fromkeys(kinds, size), f"{whole} {size}") for size in _SIZES]
    for kind in dict.fromkeys(kinds):
        factors = {int(factor) for other in kinds if other != kind for factor in _SPLIT.findall(other)}
        larger = sorted(_SIZES[0] * factor for factor in factors)
        plans += [
            ({**dict.fromkeys(kinds, _SIZES[0]), kind: many}, f"{whole} {_SIZES[0]}, of {kind} {many}") for many in larger
        ]
    for sizes, said in plans[:_MOST] if kinds else []:
        fix_arguments(module := parse_module(text), sizes)
        yield module, said


def fix_arguments(module: Module, sizes: Mapping[str, int]) -> None:
    """Gives each argument of unknown shape a known one, behind a cast back to what the body expects. sizes: by type."""
    for function in _open(module):
        casts = []
        entry, sides = function.regions[0].blocks[0], sides_of(function)
        for number, argument in enumerate(entry.arguments):
            fixed = _fixed(argument.type, sizes.get(argument.type))
            if fixed != argument.type:
                entry.arguments[number] = Value(fixed)
                # The old value is now the cast's result: whoever used it goes on as before.
                casts.append(Operation(_CAST, [entry.arguments[number]], [argument]))
        if casts and sides:
            entry.operations[:0] = casts
            with_sides(function, _arguments(function), sides[1])


def settle(module: Module) -> bool:
    """Carries shapes on where canonicalization does not: through elementwise operations, and to what is returned. Whether
    there was anything to carry, so that another canonicalization may find more.
    """
    casts = {one.results[0]: one.operands[0] for one in module.walk() if one.name == _CAST and "?" not in one.operands[0].type}
    blocks = [block for one in module.walk() for region in one.regions for block in region.blocks]
    changed = [_through(block, casts) for block in blocks]
    _fix_results(module, casts)
    return any(changed)


def _through(block: Block, casts: dict[Value, Value]) -> bool:
    """Elementwise operations of a block on values of known shape; their old results become casts of the new ones."""
    operations: list[Operation] = []
    for one in block.operations:
        operations.append(one)
        known = next((casts[value] for value in one.operands if value in casts), None)
        if known is None or not one.name.startswith(_ELEMENTWISE) or not any("?" in value.type for value in one.results):
            continue
        shape = _DIMENSIONS.match(known.type)
        assert shape
        for number, value in enumerate(one.operands):
            if value in casts:
                one.operands[number] = casts[value]
            elif "?" in value.type:
                one.operands[number] = Value(_shaped(value.type, shape[1]))
                operations.insert(-1, Operation(_CAST, [value], [one.operands[number]]))
        for number, value in enumerate(one.results):
            one.results[number] = casts[value] = Value(_shaped(value.type, shape[1]))
            operations.append(Operation(_CAST, [one.results[number]], [value]))
    changed = len(operations) > len(block.operations)
    block.operations = operations
    return changed


def _shaped(type_: str, shape: str) -> str:
    return _DIMENSIONS.sub(f"tensor<{shape}", type_, count=1)


def _fix_results(module: Module, casts: Mapping[Value, Value]) -> None:
    for function in module.functions():
        sides, blocks = sides_of(function), function.regions[0].blocks
        ends = [block.operations[-1] for block in blocks if block.operations and block.operations[-1].name.endswith(".return")]
        if sides is None or len(ends) != 1 or len(ends[0].operands) != len(sides[1]):
            continue
        ends[0].operands = [casts.get(one, one) for one in ends[0].operands]
        with_sides(function, sides[0], [value.type for value in ends[0].operands])


def _open(module: Module) -> list[Operation]:
    """The functions that only the outside calls: another's callers would not fit."""
    called = {name for one in module.walk() for text in _attributes(one) for name in symbols(text)}
    functions = [one for one in module.functions() if one.symbol not in called]
    return [one for one in functions if (sides := sides_of(one)) and len(sides[0]) == len(_arguments(one))]


def _arguments(function: Operation) -> list[str]:
    return [value.type for value in function.regions[0].blocks[0].arguments]


def _fixed(type_: str, size: int | None) -> str:
    found = _DIMENSIONS.match(type_) if size is not None else None
    return f"tensor<{found[1].replace('?', str(size))}{type_[found.end() :]}" if found else type_


def _attributes(one: Operation) -> list[str]:
    return [*one.properties.values(), *one.attributes.values()]
