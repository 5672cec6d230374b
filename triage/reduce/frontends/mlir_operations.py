"""Passes that find the failing operations of a module and drop the others, with
arguments and results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from triage.mlir import Block, Operation, Value
from triage.mlir.tree import array_elements, free_values
from triage.reduce.engine import MOST_KINDS, minimise
from triage.reduce.frontends.mlir_program import (
    Values,
    body_of,
    copy_module,
    cut,
    module_of,
    pieces,
    with_module,
    without_results,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase

_NARROW = 4  # operations; fewer are dropped one by one


def jump(
    candidate: ReducedCase, test: InterestingnessTest, line: int
) -> ReducedCase | None:
    """Keep the operation at a source line with as few neighbours as possible. Return
    None if no such program fails.
    """
    return test.first(_neighbourhoods(candidate, line))


def _neighbourhoods(candidate: ReducedCase, line: int) -> Iterator[ReducedCase]:
    """Yield cuts around the operations of a line."""
    for function in module_of(candidate).functions():
        edge = [
            operation
            for operation in pieces(function)
            if any(inner.line == line for inner in operation.walk())
        ]
        yield from cuts_around(candidate, function, edge)


def cuts_around(
    candidate: ReducedCase, function: Operation, edge: list[Operation]
) -> Iterator[ReducedCase]:
    """Yield cuts of a function around the operations in `edge`: these alone, then with
    all operations that are at most 1, 2, 4, ... definitions or uses away.
    """
    droppable = pieces(function)
    maker = {value: operation for operation in droppable for value in operation.results}
    # for each operation: those that it reads, and those that read it
    near: dict[Operation, list[Operation]] = {operation: [] for operation in droppable}
    for operation in droppable:
        for other in filter(None, map(maker.get, free_values(operation))):
            near[operation].append(other)
            near[other].append(operation)
    reached, distance, wanted = set(edge), 0, 0
    while reached:
        if distance == wanted or not edge:
            smaller = cut(candidate, function, reached)
            if smaller:
                yield smaller
        if distance == wanted:
            wanted = max(1, 2 * wanted)
        if not edge:
            break
        edge = list(
            dict.fromkeys(
                other
                for operation in edge
                for other in near[operation]
                if other not in reached
            )
        )
        reached.update(edge)
        distance += 1


def one_function(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Keep one function with what it calls, the largest first, if that fails."""
    functions = sorted(
        module_of(candidate).functions(), key=lambda function: -len(pieces(function))
    )
    cuts = (cut(candidate, function, pieces(function)) for function in functions)
    size = candidate.program.size
    smaller = (each for each in cuts if each and each.program.size < size)
    return test.first(smaller) or candidate


def keep_window(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Keep one half of a function, its middle, or three quarters, as long as that
    fails, if the program has many kinds of operations. Where there are few, whole kinds
    are dropped sooner.
    """
    droppable = [
        each
        for function in module_of(candidate).functions()
        for each in pieces(function)
    ]
    counts = Counter(map(_kind, droppable)).values()
    if sum(count > 1 for count in counts) <= MOST_KINDS:
        return candidate
    while (found := test.first(_windows(candidate))) is not None:
        candidate = found
    return candidate


def _windows(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Yield the halves, the middle and the three quarters of each long function."""
    for function in module_of(candidate).functions():
        droppable = pieces(function)
        count = len(droppable)
        if count <= _NARROW:
            continue
        half, quarter = count // 2, count // 4
        spans = (
            (0, half),
            (half, count),
            (quarter, quarter + half),
            (0, count - quarter),
            (quarter, count),
        )
        for first, end in spans:
            window = cut(candidate, function, droppable[first:end])
            if window is not None and window.program.size < candidate.program.size:
                yield window


def drop_operations(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop operations of each function, halves before single ones. Their results become
    arguments.
    """

    def reduce(base: ReducedCase, function: Operation) -> ReducedCase:
        droppable = pieces(function)
        return minimise(
            base,
            droppable,
            lambda kept: cut(base, function, kept),
            test,
            whole=len(droppable) > 1,
            kind_of=_kind,
        )

    return _for_each_function(candidate, reduce)


def drop_results(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Return fewer values, and drop the operations and the arguments that are then
    unused.
    """

    def reduce(base: ReducedCase, function: Operation) -> ReducedCase:
        block = body_of(function)
        if block is None:
            return base

        def build(returned: Sequence[Value]) -> ReducedCase | None:
            needed, kept = set(returned), []
            for operation in reversed(block.operations[:-1]):
                if not operation.results or not needed.isdisjoint(operation.results):
                    kept.append(operation)
                    needed.update(free_values(operation))
            if returned:
                return cut(base, function, kept, list(dict.fromkeys(returned)))
            return None

        results = block.operations[-1].operands
        if len(results) > 1:
            smaller = minimise(base, results, build, test, whole=False)
        else:
            smaller = base
        read = {value for operation in function.walk() for value in operation.operands}
        if smaller is base and not read.issuperset(block.arguments):
            unread = build(results)
            if unread:
                return test.first([unread]) or base
        return smaller

    return _for_each_function(candidate, reduce)


def _for_each_function(
    candidate: ReducedCase, reduce: Callable[[ReducedCase, Operation], ReducedCase]
) -> ReducedCase:
    """Reduce one function after another, by position: reducing one may drop others that
    it called.
    """
    index = 0
    while index < len(functions := module_of(candidate).functions()):
        candidate = reduce(candidate, functions[index])
        index += 1
    return candidate


def _kind(operation: Operation) -> tuple[object, ...]:
    """Return a key that is equal for operations that do the same to different
    values.
    """
    inside = tuple(
        (inner.name, *(value.type for value in inner.results))
        for inner in operation.walk()
    )
    properties = tuple(
        (name, text) for name, text in operation.properties.items() if "@" not in text
    )
    return inside, tuple(value.type for value in operation.operands), properties


def bypass_operations(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Replace an operation's results by its operands. So a link of a chain is dropped
    and the chain stays connected.
    """
    links: dict[Operation, Values] = {}
    for function in module_of(candidate).functions():
        block = body_of(function)
        if block is None:
            continue
        for operation in block.operations[:-1]:
            left, chosen = list(operation.operands), Values()
            for result in operation.results:
                match = _first_of_type(left, result.type)
                if match is not None:
                    left.remove(match)
                    chosen[result] = match
            if chosen and len(chosen) == len(operation.results):
                links[operation] = chosen
    return _replace(candidate, test, links, whole=False)


def _first_of_type(values: Iterable[Value], type_: str) -> Value | None:
    return next((value for value in values if value.type == type_), None)


def _replace(
    candidate: ReducedCase,
    test: InterestingnessTest,
    links: dict[Operation, Values],
    *,
    whole: bool,
) -> ReducedCase:
    """Drop as many of the operations in `links` as possible. `links` gives for each of
    them the values that replace its results.
    """

    def build(kept: Sequence[Operation]) -> ReducedCase | None:
        dropped = links.keys() - set(kept)
        replacements = {
            value: by for operation in dropped for value, by in links[operation].items()
        }
        if not replacements:
            return None
        module = without_results(module_of(candidate), replacements)
        _drop_unused(module.root)
        return with_module(candidate, module)

    return minimise(candidate, list(links), build, test, whole=whole, kind_of=_kind)


def _drop_unused(root: Operation) -> None:
    """Drop operations in inner bodies whose results are unused."""
    for block in reversed(list(_inner_blocks(root, 0))):  # inner ones before outer ones
        used: set[Value] = set()
        kept = []
        for inner in reversed(block.operations):
            if not inner.results or not used.isdisjoint(inner.results):
                kept.append(inner)
                used.update(
                    value for nested in inner.walk() for value in nested.operands
                )
        block.operations = kept[::-1]


def _inner_blocks(operation: Operation, depth: int) -> Iterator[Block]:
    """Yield the blocks below a function's own ones."""
    for region in operation.regions:
        for block in region.blocks:
            if depth >= 2:
                yield block
            for inner in block.operations:
                yield from _inner_blocks(inner, depth + 1)


def thin_bodies(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop operations inside of operations such as linalg.generic, and the inputs that
    the body then does not read.

    An earlier value of the same type replaces each result. The first run prefers the
    first operand of that type, the second run the last one.
    """
    for last in (False, True):
        links: dict[Operation, Values] = {}
        for block in _inner_blocks(module_of(candidate).root, 0):
            for index, operation in enumerate(block.operations[:-1]):
                if len(operation.results) == 1:
                    earlier = [
                        value
                        for other in reversed(block.operations[:index])
                        for value in other.results
                    ]
                    operands = list(operation.operands)
                    if last:
                        operands.reverse()
                    candidates = (*operands, *reversed(block.arguments), *earlier)
                    result = operation.results[0]
                    match = _first_of_type(candidates, result.type)
                    if match is not None:
                        links[operation] = {result: match}
        candidate = _replace(candidate, test, links, whole=True)
    smaller = _without_unread_inputs(candidate)
    if smaller is None:
        return candidate
    return test.first([smaller]) or candidate


def _without_unread_inputs(candidate: ReducedCase) -> ReducedCase | None:
    """Drop the inputs of linalg.generic that its body does not read, if there are
    any.
    """
    module, _ = copy_module(module_of(candidate))
    changed = False
    for operation in module.walk():
        maps = operation.attribute("indexing_maps")
        sizes = operation.attribute("operandSegmentSizes")
        if operation.name != "linalg.generic" or maps is None or sizes is None:
            continue
        inputs, outputs = (
            int(text) for text in sizes.partition(":")[2].rstrip(">").split(",")
        )
        block = operation.regions[0].blocks[0]
        read = {
            value for inner in operation.regions[0].walk() for value in inner.operands
        }
        kept = [
            index
            for index, value in enumerate(block.arguments)
            if index >= inputs or value in read
        ]
        if len(kept) < len(block.arguments):
            changed = True
            texts = array_elements(maps)
            operation.operands = [operation.operands[index] for index in kept]
            block.arguments = [block.arguments[index] for index in kept]
            operation.properties["indexing_maps"] = (
                f"[{', '.join(texts[index] for index in kept)}]"
            )
            operation.properties["operandSegmentSizes"] = (
                f"array<i32: {len(kept) - outputs}, {outputs}>"
            )
    if changed:
        return with_module(candidate, module)
    return None
