"""The form of MLIR modules, and its passes: they find the failing operations and drop
the others, with arguments and results, then fold, and shrink what is left.

The key insight about dimensions: equal numbers are most often the same dimension, so
one number is replaced by a smaller one wherever it is the size of a dimension. A wrong
guess makes a program that does not verify, which costs no compile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from triage.execution.mlir_tools import Reader
from triage.mlir import (
    Block,
    Module,
    Operation,
    UnparsableError,
    Value,
    parse_module,
    print_module,
)
from triage.mlir.tree import CANONICALIZE, free_values, replace_results, retype_function
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.reduce.mlir_program import (
    MlirProgram,
    cut,
    cuttable,
    name_arguments,
)
from triage.reduce.problem import (
    Form,
    Pass,
    ReductionProblem,
    UnreadableError,
    drop_settings,
)

_LINE = re.compile(r":(\d+):\d+$")
_MANY = 24  # operations
_ELIDED = "dense_resource<__elided__>"  # parses, but is not a program
_LONG = re.compile(
    r"(dense(?:_resource)?)<(?:\"[^\"]*\"|\[.*\]|[\w.$-]+)>"
    r"( : (?:tensor|vector)<(?:.*x)?([a-z]\w*)>\s*)",
    re.DOTALL,
)
_LONGEST = 40  # characters of a constant that stays as it is
_SMALL = 4  # dimensions up to this size shrink only with all others
_LARGE_SIZE = 32  # dimensions above this size shrink alone
# arrays of other numbers than sizes and offsets
_NOT_SIZES = {"operandSegmentSizes", "resultSegmentSizes", "static_strides"}
_SHAPE = re.compile(r"\A(?:(?:tensor|vector|memref)<|!torch\.vtensor<\[)[\d?x, ]+")
_ELEMENTS = re.compile(r" .*")  # of `array<i64: 1, 2>`
_NUMBER = re.compile(r"(?<![-\d])\d{1,18}(?!\d)")

Attribute = tuple[Operation, str]  # and its name


def mlir_form(
    readers: Sequence[Reader], case: Case, source: Path, failure: Failure
) -> Form:
    """Choose the passes for MLIR as text or bytecode.

    readers: the tools of the bad toolchain, then those of others in which a smaller
    program must be valid if the original is.
    """
    cuts: tuple[Pass, ...] = (drop_operations, bypass_operations)
    if failure.stage is not Stage.COMPILE:
        # a dropped operation's value becomes made-up numbers, a bypassed one's stays
        cuts = (bypass_long_programs, *cuts)
    return Form(
        _read_shortened_and_whole(readers, case, source),
        (*cuts, fold),
        (shrink_dimensions, drop_attributes, drop_settings),
        (find_failing_part(failure), inline_functions),
    )


def _read_shortened_and_whole(
    readers: Sequence[Reader], case: Case, source: Path
) -> Iterator[MlirProgram]:
    """Yield the program without its long constants, then as it is."""
    reader, *others = readers
    for elide in (True, False):
        text = reader.generic_form(source, elide=elide)
        if text is None:
            raise UnreadableError("the toolchain's tools do not read it")
        try:
            module = parse_module(text)
        except UnparsableError as error:
            raise UnreadableError(f"its generic form is not read: {error}") from error
        if elide:
            for operation in module.walk():
                for named in (operation.properties, operation.attributes):
                    for name, text in named.items():
                        named[name] = with_one_value(text)
            module.trailer = ""
        name_arguments(module)
        text = print_module(module)
        if _ELIDED not in text:
            accepting = [other for other in others if other.generic_if_valid(text)]
            yield MlirProgram(case, module, (reader, *accepting))


def find_failing_part(failure: Failure) -> Pass:
    """Make the pass that keeps the operation that a failure names with as few
    neighbours as possible; else one function with what it calls, the largest first.
    """
    line = _LINE.search(failure.location or "")

    def find_failing_operation(problem: ReductionProblem) -> None:
        start = MlirProgram.of(problem)
        functions = start.module.functions()
        if line:
            around = (
                _cuts_around(start, function, int(line[1])) for function in functions
            )
            if problem.take_first(chain.from_iterable(around)) is not None:
                return
        functions.sort(key=lambda function: -len(cuttable(function)))
        problem.take_first(
            cut(start, function, cuttable(function)) for function in functions
        )

    return find_failing_operation


def _cuts_around(
    program: MlirProgram, function: Operation, line: int
) -> Iterator[MlirProgram | None]:
    """Yield cuts of a function around the operations of a line: these alone, then with
    all operations that are at most 1, 2, 4, ... definitions or uses away.
    """
    droppable = cuttable(function)
    maker = {value: operation for operation in droppable for value in operation.results}
    # for each operation: those that it reads, and those that read it
    near: dict[Operation, list[Operation]] = {operation: [] for operation in droppable}
    for operation in droppable:
        for other in filter(None, map(maker.get, free_values(operation))):
            near[operation].append(other)
            near[other].append(operation)
    edge = dict.fromkeys(
        operation
        for operation in droppable
        if any(inner.line == line for inner in operation.walk())
    )
    reached = set(edge)
    distance = 0
    size_before = 0
    while len(reached) > size_before:
        size_before = len(reached)
        yield cut(program, function, reached)
        for _ in range(max(1, distance)):
            neighbours = chain.from_iterable(map(near.__getitem__, edge))
            edge = dict.fromkeys(other for other in neighbours if other not in reached)
            reached.update(edge)
        distance = max(1, 2 * distance)


def drop_operations(problem: ReductionProblem) -> None:
    """Drop operations of each function, halves before single ones. Their results become
    arguments.
    """
    index = 0
    # by position: reducing one may drop others that it called
    while index < len(functions := MlirProgram.of(problem).module.functions()):
        _drop_operations_of(problem, functions[index])
        index += 1


def _drop_operations_of(problem: ReductionProblem, function: Operation) -> None:
    start = MlirProgram.of(problem)
    droppable = cuttable(function)
    problem.delete(
        droppable,
        lambda dropped: cut(start, function, set(droppable).difference(dropped)),
    )
    if problem.current is start:  # without unread arguments
        problem.take_first([cut(start, function, droppable)])


def bypass_operations(problem: ReductionProblem) -> None:
    """Replace the results of operations by operands of the same types, so that a link
    of a chain is dropped and the chain stays connected; inside of other operations also
    by earlier values.
    """
    start = MlirProgram.of(problem)
    links: dict[Operation, dict[Value, Value]] = {}
    inner = set(_inner_blocks(start.module))
    for block in start.module.blocks()[1:]:
        latest = dict[str, Value]()
        values = block.arguments
        for operation in block.operations[:-1]:
            if block in inner:
                latest |= {value.type: value for value in values}
            chosen = _stand_ins(operation, latest)
            if chosen:
                links[operation] = chosen
            values = operation.results
    # what is unused before may be what fails
    unused = {
        operation
        for block in inner
        for operation in set(block.operations).difference(_used_operations(block, ()))
    }

    def without(dropped: Sequence[Operation]) -> MlirProgram:
        module, new = start.copy_module()
        pairs = [pair for operation in dropped for pair in links[operation].items()]
        replace_results(module, {new[value]: new[by] for value, by in pairs})
        kept = {new[operation] for operation in unused.difference(dropped)}
        for block in reversed(_inner_blocks(module)):  # inner before outer ones
            block.operations = _used_operations(block, kept)
        return replace(start, module=module)

    problem.delete(list(links), without)


def _stand_ins(
    operation: Operation, earlier: Mapping[str, Value]
) -> dict[Value, Value]:
    """Return for each result an operand of its type, each once, or else an earlier
    value; nothing if a result has none.
    """
    operands = list(operation.operands)
    chosen = {}
    for result in operation.results:
        fitting = (value for value in operands if value.type == result.type)
        match = next(fitting, earlier.get(result.type))
        if match is None:
            return {}
        chosen[result] = match
        if match in operands:
            operands.remove(match)
    return chosen


def bypass_long_programs(problem: ReductionProblem) -> None:
    """Bypass operations where they are many: dropping soon ends in a long program."""
    if problem.current.size > _MANY:
        bypass_operations(problem)


def _used_operations(block: Block, kept: Container[Operation]) -> list[Operation]:
    """Return the operations of a block without those whose results nothing needs."""
    used = []
    needed: set[Value] = set()
    for operation in reversed(block.operations):
        is_needed = not operation.results or not needed.isdisjoint(operation.results)
        if is_needed or operation in kept:
            used.append(operation)
            needed.update(free_values(operation))
    return used[::-1]


def _inner_blocks(module: Module) -> list[Block]:
    """Return the blocks of operations inside of functions."""
    functions = module.functions()
    outer = [block for function in functions for block in function.regions[0].blocks]
    return [block for block in module.blocks()[1:] if block not in outer]


def inline_functions(problem: ReductionProblem) -> None:
    """Let functions move into their callers, because a called one cannot be cut."""
    if len(MlirProgram.of(problem).module.functions()) > 1:
        _take_folded(problem, ("--inline",))


def fold(problem: ReductionProblem) -> None:
    """Let the compiler canonicalize the program, where that makes it smaller: with what
    nothing uses left out, or as it is.
    """
    _take_folded(problem, MlirProgram.of(problem).readers[0].shortening, ())


def _take_folded(problem: ReductionProblem, *options: tuple[str, ...]) -> None:
    program = MlirProgram.of(problem)

    def folded(words: tuple[str, ...]) -> MlirProgram | None:
        words = (*words, *CANONICALIZE, "--mlir-print-op-generic")
        text = program.readers[0].text_after_passes(program.text, words)
        with suppress(UnparsableError):
            module = parse_module(text or "")
            name_arguments(module, program.module)
            candidate = replace(program, module=module)
            if len(candidate.text) < len(program.text):
                return candidate
        return None

    problem.take_first(map(folded, options))


def drop_attributes(problem: ReductionProblem) -> None:
    """Drop attributes, but for those that the program is invalid without."""
    start = MlirProgram.of(problem)
    attributes = [
        (operation, name)
        for operation in start.module.root.walk()
        for name in {**operation.attributes, **operation.properties}
    ]

    def without(dropped: Sequence[Attribute]) -> MlirProgram:
        module, new = start.copy_module()
        for operation, name in dropped:
            new[operation].attributes.pop(name, None)
            new[operation].properties.pop(name, None)
        return replace(start, module=module)

    valid = [item for item in attributes if problem.is_valid_change(without([item]))]
    problem.delete(valid, without)


def with_one_value(text: str) -> str:
    """Shorten a constant's text to one value instead of a long list."""
    match = _LONG.fullmatch(text)
    if match is None or (match[1] == "dense" and match.start(2) <= _LONGEST):
        return text
    value = "1.000000e+00"
    if match[3][0] in "ius":
        value = "1"
    return f"dense<{value}>{match[2]}"


def shrink_dimensions(problem: ReductionProblem) -> None:
    """Halve all numbers together, or all but small ones, then each large size alone or
    with another that depends on it, the largest first.
    """
    start = MlirProgram.of(problem)
    largest = max(_sizes(start), default=1)
    _halve_sizes(problem, lambda _: True, largest)
    if problem.current is start:
        _halve_sizes(problem, lambda number: number > _SMALL, largest)
    sizes = sorted(_sizes(MlirProgram.of(problem)), reverse=True)
    for size in filter(_LARGE_SIZE.__lt__, sizes):
        multiples = {other for other in sizes if other % size == 0 or size % other == 0}
        for other in (size, *sorted(multiples - {size})):
            if _halve_sizes(problem, {size, other}.__contains__, min(size, other)):
                break


def _sizes(program: MlirProgram) -> set[int]:
    types = (value.type for value in program.module.values())
    shapes = "".join(match[0] for match in map(_SHAPE.match, types) if match)
    return {int(text) for text in _NUMBER.findall(shapes)} - {0, 1}


def _halve_sizes(
    problem: ReductionProblem, is_chosen: Callable[[int], bool], reference: int
) -> bool:
    """Halve the chosen sizes until `reference` is 2, or half as often if the failure
    does not stay. Return whether any program was valid.
    """
    start = MlirProgram.of(problem)
    halved = (
        _with_halved(start, is_chosen, times)
        for times in range((reference - 1).bit_length() - 1, 0, -1)
    )
    valid = [smaller for smaller in halved if problem.is_valid_change(smaller)]
    problem.take_first([*valid[:1], *valid[len(valid) // 2 :][:1]])
    return bool(valid)


def _with_halved(
    program: MlirProgram, is_chosen: Callable[[int], bool], times: int
) -> MlirProgram:
    """Return the program with smaller sizes in its types, and smaller numbers in the
    arrays that repeat sizes or count in them.
    """

    def smaller(number: int) -> int:
        if number > 1 and is_chosen(number):
            return -(-number >> times)  # rounded up
        return number

    module, _ = program.copy_module()
    for value in module.values():
        value.type = _with_smaller(value.type, _SHAPE, smaller)
    for operation in module.walk():
        if operation.attribute("function_type"):
            retype_function(operation)
        for holder in (operation.properties, operation.attributes):
            literal, typed, __ = holder.get("value", "").rpartition(" : ")
            if operation.name == "arith.constant" and "dense" in literal and typed:
                holder["value"] = f"{literal} : {operation.results[0].type}"
            for name in holder.keys() - _NOT_SIZES:
                if holder[name].startswith("array<i"):
                    # small numbers of other arrays may count dimensions
                    least = 1 if name.startswith("static_") else _SMALL
                    holder[name] = _with_smaller(
                        holder[name], _ELEMENTS, smaller, least
                    )
    return replace(program, module=module)


def _with_smaller(
    text: str,
    part: re.Pattern[str],
    smaller: Callable[[int], int],
    least: int = 1,
) -> str:
    """Return a text with smaller numbers in its first such part. Numbers up to `least`
    stay.
    """

    def replaced(match: re.Match[str]) -> str:
        number = int(match[0])
        return str(smaller(number) if number > least else number)

    return part.sub(lambda match: _NUMBER.sub(replaced, match[0]), text, count=1)
