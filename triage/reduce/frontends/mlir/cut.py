"""Some operations of a function as a program of their own: what they need from the others becomes an argument, what the
others needed of them becomes a result.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from triage.mlir import Block, Module, Operation, Region, Value
from triage.mlir.tree import free_values, split, symbols, users
from triage.reduce.draft import Draft
from triage.reduce.frontends.mlir.document import Values, copy_operation, module_of, with_body, with_module
from triage.reduce.search import InterestingnessTest

# What a function that is called from outside may take and give, in every version.
_CROSSABLE = re.compile(r"tensor<|!torch\.vtensor<|complex<|[us]?i\d+$|index$|b?f\d+|!hal\.")
_SHORT = 256  # characters of attributes; a longer constant is an input rather than a part of the program
_PER_FUNCTION = ("arg_attrs", "res_attrs", "function_type", "sym_visibility", "tied_operands")


def body_of(function: Operation) -> Block | None:
    """The block of a function that has exactly one, with a terminator."""
    blocks = function.regions[0].blocks
    return blocks[0] if len(blocks) == 1 and blocks[0].operations else None


def pieces(function: Operation) -> list[Operation]:
    """What can be cut out of a function: its operations but the terminator and those that `cut` brings along."""
    block = body_of(function)
    return [one for one in block.operations[:-1] if not comes_along(one)] if block else []


def comes_along(operation: Operation) -> bool:
    """Whether an operation is copied to where it is needed: short constants and empty tensors, which need nothing."""
    if operation.operands or operation.regions or len(operation.results) != 1:
        return False
    texts = [*operation.properties.values(), *operation.attributes.values()]
    return sum(map(len, texts)) < _SHORT and not any("@" in text or "dense_resource" in text for text in texts)


def cut(
    module: Module, function: Operation, kept: Collection[Operation], returned: Sequence[Value] | None = None
) -> Module | None:
    """The module with nothing but `kept` of `function`, the constants they need, and the symbols they refer to.

    returned: the values the new function gives back, by default those that the rest of the old one needed, and where
    there are none those that nobody needed. None where the operations cannot be cut apart.
    """
    block = body_of(function)
    if block is None:
        return None
    chosen = _completed(block, set(kept))
    if chosen is None:
        return None
    operations = [one for one in block.operations[:-1] if one in chosen]
    if returned is None:
        returned = _given_back(block, chosen, {one for one in chosen if one in set(kept)})
    if not operations or (not returned and all(one.results for one in operations)):
        return None
    made = _function(function, block, operations, returned)
    return with_body(module, [*_referred(module, function, made), made])


def _completed(block: Block, kept: set[Operation]) -> set[Operation] | None:
    """`kept` with what it cannot be without: constants, and whatever makes a value that no argument can carry."""
    maker = {value: one for one in block.operations for value in one.results}
    chosen, waiting = set(kept), list(kept)
    while waiting:
        for value in free_values(waiting.pop()):
            one = maker.get(value)
            if one is None or one in chosen:
                continue
            if comes_along(one) or not _CROSSABLE.match(value.type):
                chosen.add(one)
                waiting.append(one)
    return chosen


def _given_back(block: Block, chosen: set[Operation], kept: set[Operation]) -> list[Value]:
    needed_by = users(block)
    results = [value for one in block.operations if one in kept for value in one.results if _CROSSABLE.match(value.type)]
    outside = [value for value in results if any(user not in chosen for user in needed_by.get(value, ()))]
    return outside or [value for value in results if value not in needed_by] or results[-1:]


def _function(function: Operation, block: Block, operations: list[Operation], returned: Sequence[Value]) -> Operation:
    made_inside = {value for one in operations for value in one.results}
    needed = dict.fromkeys(value for one in operations for value in free_values(one) if value not in made_inside)
    needed |= dict.fromkeys(value for value in returned if value not in made_inside)
    old = [value for value in block.arguments if value in needed]
    arguments = [*old, *(value for value in needed if value not in set(old))]
    values: Values = {value: Value(value.type) for value in arguments}
    inside = Block([values[value] for value in arguments])
    inside.operations = [copy_operation(one, values) for one in operations]
    end = block.operations[-1]
    inside.operations.append(
        Operation(end.name, [values[value] for value in returned], attributes=dict(end.attributes), place=end.place)
    )
    given = dict(zip(block.arguments, _dictionaries(function, "arg_attrs"), strict=False))
    taken = dict(zip(end.operands, _dictionaries(function, "res_attrs"), strict=False))
    properties = {
        "function_type": function_type(inside.arguments, inside.operations[-1].operands),
        "sym_name": function.attribute("sym_name") or '"reduced"',
    }
    for name, dictionaries in (
        ("arg_attrs", [given.get(value, "{}") for value in arguments]),
        ("res_attrs", [taken.get(value, "{}") for value in returned]),
    ):
        if any(text != "{}" for text in dictionaries):
            properties[name] = f"[{', '.join(dictionaries)}]"
    kept = {name: text for name, text in function.properties.items() if name not in (*_PER_FUNCTION, "sym_name")}
    attributes = {name: text for name, text in function.attributes.items() if name not in (*_PER_FUNCTION, "sym_name")}
    return Operation(function.name, [], [], {**properties, **kept}, attributes, [Region([inside])], [], function.place)


def function_type(arguments: Iterable[Value], results: Iterable[Value]) -> str:
    """`(i32, f32) -> f32`, as a function's attribute has it."""
    given = [value.type for value in results]
    told = given[0] if len(given) == 1 else f"({', '.join(given)})"
    return f"({', '.join(value.type for value in arguments)}) -> {told}"


def _dictionaries(function: Operation, name: str) -> list[str]:
    text = function.attribute(name)
    return split(text[1:-1]) if text else []


def _referred(module: Module, function: Operation, made: Operation) -> Iterator[Operation]:
    """The module's other symbols that the new function needs, and those that these need, in their old order."""
    known = {one.symbol: one for one in module.body.operations if one.symbol and one is not function}
    needed: set[Operation] = set()
    waiting = [made]
    while waiting:
        for name in _named(waiting.pop()):
            if (one := known.get(name)) and one not in needed:
                needed.add(one)
                waiting.append(one)
    return (one for one in module.body.operations if one in needed)


def _named(operation: Operation) -> Iterator[str]:
    for one in operation.walk():
        for text in (*one.properties.values(), *one.attributes.values()):
            yield from symbols(text)
        for value in one.results:
            yield from symbols(value.type)


_NARROW = 4  # operations; a shorter window is left to the pass that removes single ones


def jump(draft: Draft, hunt: InterestingnessTest, line: int | None) -> Draft | None:
    """The operation at the source line `line` with as few neighbours as will do; None where that never fails."""
    if line is None:
        return None
    module = module_of(draft)
    return hunt.first(with_module(draft, one) for one in _neighbourhoods(module, line))


def _neighbourhoods(module: Module, line: int) -> Iterator[Module]:
    """Cuts around the operations of a line, which reach 0, 1, 2, 4, ... uses and definitions far."""
    for function in module.functions():
        able = pieces(function)
        seeds = [one for one in able if any(inner.line == line for inner in one.walk())]
        if not seeds:
            continue
        near = _neighbours(able)
        reached, edge, distance, wanted = set(seeds), list(seeds), 0, 0
        while True:
            if distance == wanted or not edge:
                if (made := cut(module, function, reached)) is not None:
                    yield made
                wanted = max(1, 2 * wanted)
            if not edge:
                break
            edge = list(dict.fromkeys(other for one in edge for other in near[one] if other not in reached))
            reached.update(edge)
            distance += 1


def _neighbours(able: list[Operation]) -> dict[Operation, list[Operation]]:
    """Which operations give an operation its values and which take what it gives."""
    maker = {value: one for one in able for value in one.results}
    near: dict[Operation, list[Operation]] = {one: [] for one in able}
    for one in able:
        for value in free_values(one):
            if (other := maker.get(value)) is not None:
                near[one].append(other)
                near[other].append(one)
    return near


def narrow(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Halves of functions, the largest first, until neither half fails alone; then what lies between them."""
    while True:
        module = module_of(draft)
        functions = sorted(module.functions(), key=lambda one: -len(pieces(one)))
        windows = (with_module(draft, made) for function in functions for made in _windows(module, function))
        found = hunt.first(one for one in windows if one.document.size < draft.document.size)
        if found is None:
            return draft
        draft = found


def _windows(module: Module, function: Operation) -> Iterator[Module]:
    able = pieces(function)
    count = len(able)
    if count <= _NARROW:
        if len(module.functions()) > 1 and count and (made := cut(module, function, able)) is not None:
            yield made
        return
    half, quarter = count // 2, count // 4
    spans = [(0, half), (half, count), (quarter, quarter + half), (0, count - quarter), (quarter, count)]
    if len(module.functions()) > 1:
        spans.insert(0, (0, count))
    for first, end in spans:
        if (made := cut(module, function, able[first:end])) is not None:
            yield made
