"""Passes that find the failing operations of a module and drop the others, with
arguments and results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from triage.mlir import Block, Module, Operation, Value
from triage.mlir.rewrite import replace_results
from triage.mlir.tree import free_values
from triage.model.outcome import Failure
from triage.reduce.frontends.mlir_program import (
    Copies,
    changed,
    cut,
    module_of,
    pieces,
)
from triage.reduce.problem import Pass, ReductionProblem
from triage.reduce.program import ReducedCase

_MANY = 24  # operations
_LINE = re.compile(r":(\d+):\d+$")


def find_failing_part(failure: Failure) -> Pass:
    """Make the pass that keeps the operation that a failure names with as few
    neighbours as possible; else one function with what it calls, the largest first.
    """
    line = _LINE.search(failure.location or "")

    def find_failing_operation(problem: ReductionProblem) -> None:
        start = problem.current
        functions = module_of(start).functions()
        if line and problem.take_first(_cuts_at(start, int(line[1]))) is not None:
            return
        functions.sort(key=lambda function: -len(pieces(function)))
        cuts = (cut(start, function, pieces(function)) for function in functions)
        size = start.program.size
        problem.take_first(
            candidate
            for candidate in cuts
            if candidate and candidate.program.size < size
        )

    return find_failing_operation


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


def drop_operations(problem: ReductionProblem) -> None:
    """Drop operations of each function, halves before single ones. Their results become
    arguments.
    """
    index = 0
    # by position: reducing one may drop others that it called
    while index < len(functions := module_of(problem.current).functions()):
        _drop_operations_of(problem, functions[index])
        index += 1


def _drop_operations_of(problem: ReductionProblem, function: Operation) -> None:
    start, droppable = problem.current, pieces(function)
    problem.delete(
        droppable,
        lambda dropped: cut(start, function, set(droppable).difference(dropped)),
    )
    if problem.current is start:  # without unread arguments
        problem.take_first([cut(start, function, droppable)])


def bypass_operations(problem: ReductionProblem) -> None:
    """Replace an operation's results by its operands. So a link of a chain is dropped
    and the chain stays connected.
    """
    _bypass(problem, _function_bodies(module_of(problem.current)), inner=False)


def bypass_long_programs(problem: ReductionProblem) -> None:
    """Bypass operations where they are many: dropping soon ends in a long program."""
    if problem.current.program.size > _MANY:
        bypass_operations(problem)


def thin_bodies(problem: ReductionProblem) -> None:
    """Drop operations inside of operations such as linalg.generic.

    An operand or an earlier value of the same type replaces each result. The first run
    prefers the first operand of that type, the second run the last one.
    """
    for step in (1, -1):
        module = module_of(problem.current)
        bodies = _function_bodies(module)
        inner = [block for block in module.blocks()[1:] if block not in bodies]
        _bypass(problem, inner, inner=True, step=step)


def _bypass(
    problem: ReductionProblem, blocks: Sequence[Block], *, inner: bool, step: int = 1
) -> None:
    start = problem.current
    links: dict[Operation, dict[Value, Value]] = {}
    for block in blocks:
        latest: dict[str, Value] = {}
        values = block.arguments
        for operation in block.operations[:-1]:
            if inner:
                latest |= {value.type: value for value in values}
            left, chosen = operation.operands[::step], dict[Value, Value]()
            for result in operation.results:
                fitting = (value for value in left if value.type == result.type)
                match = next(fitting, latest.get(result.type))
                if match:
                    chosen[result] = match
                if match in left:
                    left.remove(match)
            if chosen and len(chosen) == len(operation.results):
                links[operation] = chosen
            values = operation.results

    def without(dropped: Sequence[Operation]) -> ReducedCase:
        def replace(module: Module, new: Copies) -> None:
            pairs = [pair for operation in dropped for pair in links[operation].items()]
            replace_results(module, {new[value]: new[by] for value, by in pairs})
            bodies = _function_bodies(module)
            for block in reversed(module.blocks()[1:]):  # inner before outer ones
                if block not in bodies:
                    *body, end = block.operations
                    block.operations = [*_used(body, set(free_values(end))), end]

        return changed(start, replace)

    problem.delete(list(links), without)


def _used(operations: Sequence[Operation], needed: set[Value]) -> list[Operation]:
    """Return the operations without those whose results nothing needs."""
    used = []
    for operation in reversed(operations):
        if not operation.results or not needed.isdisjoint(operation.results):
            used.append(operation)
            needed.update(free_values(operation))
    return used[::-1]


def _function_bodies(module: Module) -> list[Block]:
    return [
        block for function in module.functions() for block in function.regions[0].blocks
    ]
