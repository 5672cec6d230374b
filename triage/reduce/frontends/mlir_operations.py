"""Passes that find the failing operations of a module and drop the others, with
arguments and results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps

from triage.mlir import Block, Module, Operation, Value
from triage.mlir.rewrite import replace_results
from triage.mlir.tree import free_values
from triage.reduce.frontends.mlir_program import (
    Copies,
    body_of,
    changed,
    cut,
    module_of,
    pieces,
)
from triage.reduce.problem import MOST_KINDS, Pass, ReductionProblem
from triage.reduce.program import ReducedCase


def find_failing_part(line: int | None) -> Pass:
    """Make the pass that keeps the operation at a source line with as few neighbours as
    possible; else one function with what it calls, the largest first, and of many kinds
    of operations halves. Where there are few, whole kinds are dropped sooner.
    """

    def find_failing_operation(problem: ReductionProblem) -> None:
        start = problem.current
        functions = module_of(start).functions()
        if line and problem.take_first(_cuts_at(start, line)) is not None:
            return
        functions.sort(key=lambda function: -len(pieces(function)))
        alone = (cut(start, function, pieces(function)) for function in functions)
        problem.take_first(_smaller(start, alone))
        taken: int | None = 0
        while taken is not None:
            taken = problem.take_first(_smaller(problem.current, _halves(problem)))

    return find_failing_operation


def _halves(problem: ReductionProblem) -> Iterator[ReducedCase | None]:
    """Yield the halves and the middle of each function with many kinds."""
    for function in module_of(problem.current).functions():
        droppable = pieces(function)
        counts = Counter(map(_kind, droppable)).values()
        if sum(count > 1 for count in counts) > MOST_KINDS:
            half = len(droppable) // 2
            for first in (0, half, half // 2):
                part = droppable[first : first + half + 1]
                yield cut(problem.current, function, part)


def _smaller(
    start: ReducedCase, candidates: Iterable[ReducedCase | None]
) -> Iterator[ReducedCase]:
    for candidate in candidates:
        if candidate and candidate.program.size < start.program.size:
            yield candidate


def _cuts_at(candidate: ReducedCase, line: int) -> Iterator[ReducedCase]:
    """Yield cuts around the operations of a line."""
    for function in module_of(candidate).functions():
        edge = [
            operation
            for operation in pieces(function)
            if any(inner.line == line for inner in operation.walk())
        ]
        yield from cuts_around(candidate, function, edge)


def cuts_around(
    candidate: ReducedCase, function: Operation, edge: Sequence[Operation]
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
            wanted = max(1, 2 * wanted)
        if not edge:
            return
        neighbours = [other for operation in edge for other in near[operation]]
        edge = [other for other in dict.fromkeys(neighbours) if other not in reached]
        reached.update(edge)
        distance += 1


def _each_function(
    reduce: Callable[[ReductionProblem, Operation], None],
) -> Callable[[ReductionProblem], None]:
    """Make a pass that reduces one function after another, by position: reducing one
    may drop others that it called.
    """

    @wraps(reduce)
    def run(problem: ReductionProblem) -> None:
        index = 0
        while index < len(functions := module_of(problem.current).functions()):
            reduce(problem, functions[index])
            index += 1

    return run


@_each_function
def drop_operations(problem: ReductionProblem, function: Operation) -> None:
    """Drop operations of each function, halves before single ones. Their results become
    arguments.
    """
    start, droppable = problem.current, pieces(function)

    def without(dropped: Sequence[Operation]) -> ReducedCase | None:
        return cut(start, function, set(droppable).difference(dropped))

    problem.delete(droppable, without, whole=len(droppable) > 1, kind_of=_kind)


@_each_function
def drop_results(problem: ReductionProblem, function: Operation) -> None:
    """Return fewer values, and drop the operations and the arguments that are then
    unused.
    """
    start, block = problem.current, body_of(function)
    if block is None:
        return
    results = block.operations[-1].operands

    def without(dropped: Sequence[int]) -> ReducedCase | None:
        returned = [each for at, each in enumerate(results) if at not in dropped]
        needed, kept = set(returned), []
        for operation in reversed(block.operations[:-1]):
            if not operation.results or not needed.isdisjoint(operation.results):
                kept.append(operation)
                needed.update(free_values(operation))
        if not returned:
            return None
        return cut(start, function, kept, list(dict.fromkeys(returned)))

    if len(results) > 1:
        problem.delete(range(len(results)), without, whole=False)
    read = {value for operation in function.walk() for value in operation.operands}
    if problem.current is start and not read.issuperset(block.arguments):
        problem.take_first(filter(None, [without([])]))


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


def bypass_operations(problem: ReductionProblem) -> None:
    """Replace an operation's results by its operands. So a link of a chain is dropped
    and the chain stays connected.
    """
    links: Links = {}
    for function in module_of(problem.current).functions():
        block = body_of(function)
        for operation in block.operations[:-1] if block else []:
            left, chosen = list(operation.operands), dict[Value, Value]()
            for result in operation.results:
                match = _first_of_type(left, result.type)
                if match is not None:
                    left.remove(match)
                    chosen[result] = match
            if chosen and len(chosen) == len(operation.results):
                links[operation] = chosen
    _replace(problem, links, whole=False)


def thin_bodies(problem: ReductionProblem) -> None:
    """Drop operations inside of operations such as linalg.generic.

    An earlier value of the same type replaces each result. The first run prefers the
    first operand of that type, the second run the last one.
    """
    for last in (False, True):
        links: Links = {}
        for block in _inner_blocks(module_of(problem.current).root, 0):
            earlier: list[Value] = [*block.arguments]
            for operation in block.operations[:-1]:
                operands = operation.operands[:: -1 if last else 1]
                if len(operation.results) == 1:
                    [result] = operation.results
                    match = _first_of_type([*operands, *earlier[::-1]], result.type)
                    if match is not None:
                        links[operation] = {result: match}
                earlier += operation.results
        _replace(problem, links, whole=True)


Links = dict[Operation, dict[Value, Value]]
"""For each operation that can be dropped, the values that replace its results."""


def _first_of_type(values: Iterable[Value], type_: str) -> Value | None:
    return next((value for value in values if value.type == type_), None)


def _replace(problem: ReductionProblem, links: Links, *, whole: bool) -> None:
    """Drop as many of the operations in `links` as possible."""
    start = problem.current

    def without(dropped: Sequence[Operation]) -> ReducedCase:
        def replace(module: Module, new: Copies) -> None:
            pairs = [pair for each in dropped for pair in links[each].items()]
            replace_results(module, {new[value]: new[by] for value, by in pairs})
            _drop_unused(module.root)

        return changed(start, replace)

    problem.delete(list(links), without, whole=whole, kind_of=_kind)


def _drop_unused(root: Operation) -> None:
    """Drop operations in inner bodies whose results are unused."""
    for block in reversed(list(_inner_blocks(root, 0))):  # inner ones before outer ones
        used: set[Value] = set()
        kept = []
        for inner in reversed(block.operations):
            if not inner.results or not used.isdisjoint(inner.results):
                kept.append(inner)
                used.update(free_values(inner))
        block.operations = kept[::-1]


def _inner_blocks(operation: Operation, depth: int) -> Iterator[Block]:
    """Yield the blocks below a function's own ones."""
    for region in operation.regions:
        for block in region.blocks:
            if depth >= 2:
                yield block
            for inner in block.operations:
                yield from _inner_blocks(inner, depth + 1)
