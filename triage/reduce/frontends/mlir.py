"""The form of MLIR modules, and passes that rewrite a module: folding, shapes,
attributes, constants.

The key insight about dimensions: equal numbers are most often the same dimension, so
one number is replaced by a smaller one wherever it is the size of a dimension. A wrong
guess makes a program that does not verify, which costs no compile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from triage.execution.mlir_tools import Reader
from triage.mlir import Module, UnparsableError, parse_module
from triage.mlir.rewrite import (
    CANONICALIZE,
    dimensions,
    reshaped,
)
from triage.mlir.tree import Operation
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.reduce.frontends.mlir_operations import (
    bypass_long_programs,
    bypass_operations,
    drop_operations,
    find_failing_part,
    thin_bodies,
)
from triage.reduce.frontends.mlir_program import (
    Copies,
    MlirProgram,
    changed,
    mlir_program_of,
    module_of,
    name_arguments,
    update_function_type,
)
from triage.reduce.problem import Form, Pass, ReductionProblem
from triage.reduce.program import ReducedCase, UnreadableError
from triage.reduce.settings import drop_settings

_ELIDED = "dense_resource<__elided__>"  # parses, but is not a program
_FUSE = ("--linalg-fuse-elementwise-ops",)  # it drops unread operands, too
_LARGE = 4 << 20  # bytes of a file from which it is first read without its constants
_NEEDED = frozenset(
    (
        "function_type",
        "sym_name",
        "operandSegmentSizes",
        "resultSegmentSizes",
        "value",
        "callee",
    )
)
_LONG = re.compile(
    r"(dense(?:_resource)?)<(?:\"[^\"]*\"|\[.*\]|[\w.$-]+)>(?= : (?:tensor|vector)<)",
    re.DOTALL,
)
_ELEMENT = re.compile(r"[x<]([a-z]\w*)>\s*\Z")
_LONGEST = 40  # characters of a constant that stays as it is
_SMALL = 4  # dimensions up to this size shrink only with all others
_LARGE_SIZE = 32  # dimensions above this size shrink alone
# arrays of other numbers than sizes and offsets
_NOT_SIZES = {"operandSegmentSizes", "resultSegmentSizes", "static_strides"}
_NUMBER = re.compile(r"(?<=[ ,])\d+(?=[,>])")

Attribute = tuple[Operation, str]  # and its name


def mlir_form(readers: Sequence[Reader], source: Path, failure: Failure) -> Form:
    """Return the form of MLIR as text or bytecode.

    readers: the tools of the bad toolchain, then those of others in which a smaller
    program must be valid if the original is.
    """
    cuts: tuple[Pass, ...] = (drop_operations, bypass_operations)
    if failure.stage is not Stage.COMPILE:
        # a dropped operation's value becomes made-up numbers, a bypassed one's stays
        cuts = (bypass_long_programs, *cuts)
    return Form(
        partial(_open, readers, source),
        (*cuts, thin_bodies, fold, shorten_constants),
        (shrink_dimensions, drop_attributes, drop_settings),
        (find_failing_part(failure),),
    )


def _open(readers: Sequence[Reader], source: Path) -> Iterator[MlirProgram]:
    is_large = source.stat().st_size > _LARGE
    reader, *others = readers
    for elide in dict.fromkeys((is_large, False)):
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
                    named |= {
                        name: with_one_value(text) for name, text in named.items()
                    }
            module.trailer = ""
        name_arguments(module)
        text = MlirProgram(module, ()).text
        if _ELIDED not in text:
            accepting = [other for other in others if other.generic_if_valid(text)]
            yield MlirProgram(module, (reader, *accepting))


def fold(problem: ReductionProblem) -> None:
    """Let the compiler fuse and canonicalize the program, or canonicalize it alone,
    where that makes it smaller.
    """
    program = mlir_program_of(problem.current)
    for passes in ((*_FUSE, *CANONICALIZE), CANONICALIZE):
        options = (*passes, "--mlir-print-op-generic")
        text = program.readers[0].text_after_passes(program.text, options)
        with suppress(UnparsableError):
            module = parse_module(text or "")
            name_arguments(module, program.module)
            folded = MlirProgram(module, program.readers)
            is_smaller = len(folded.content) < len(program.content)
            if is_smaller and folded.size <= program.size:
                candidate = problem.current.with_program(folded)
                if problem.take_first([candidate]) is not None:
                    return


def drop_attributes(problem: ReductionProblem) -> None:
    """Drop attributes, but for those that the program is invalid without."""
    _change_attributes(problem, lambda name, text: text if name in _NEEDED else None)


def shorten_constants(problem: ReductionProblem) -> None:
    """Replace long constants by ones with a single value."""
    _change_attributes(problem, lambda _, text: with_one_value(text))


def _change_attributes(
    problem: ReductionProblem, new_text: Callable[[str, str], str | None]
) -> None:
    """Give attributes another text, None to drop them, and drop resources that none
    uses then.
    """
    start = problem.current
    attributes = [
        (operation, name)
        for operation in module_of(start).root.walk()
        for name, text in {**operation.attributes, **operation.properties}.items()
        if new_text(name, text) != text
    ]

    def with_changes(chosen: Sequence[Attribute]) -> ReducedCase:
        def change(module: Module, new: Copies) -> None:
            for operation, name in chosen:
                for holder in (new[operation].attributes, new[operation].properties):
                    text = new_text(name, holder.pop(name)) if name in holder else None
                    if text is not None:
                        holder[name] = text
            texts = [text for inner in module.root.walk() for text in inner.texts()]
            if not any("dense_resource<" in text for text in texts):
                module.trailer = ""

        return changed(start, change)

    valid = [item for item in attributes if problem.is_new(with_changes([item]))]
    problem.delete(valid, with_changes)


def with_one_value(text: str) -> str:
    """Return a constant's text with one value instead of a long list, or the text
    itself when it is short.
    """
    match = _LONG.match(text)
    if match is None or (match[1] == "dense" and len(match.group()) <= _LONGEST):
        return text
    element = _ELEMENT.search(text[match.end() :])
    if element is None:
        return text
    value = "1.000000e+00"
    if element[1] == "i1":
        value = "true"
    elif element[1].startswith(("i", "ui", "si")):
        value = "1"
    return f"dense<{value}>{text[match.end() :]}"


def shrink_dimensions(problem: ReductionProblem) -> None:
    """Halve all numbers together, or all but small ones, then each large size alone or
    with another that depends on it, the largest first.
    """
    start = problem.current
    largest = max(_sizes(start), default=1)
    _halve(problem, lambda _: True, largest)
    if problem.current is start:
        _halve(problem, lambda number: number > _SMALL, largest)
    sizes = sorted(_sizes(problem.current), reverse=True)
    for size in filter(_LARGE_SIZE.__lt__, sizes):
        multiples = {other for other in sizes if other % size == 0 or size % other == 0}
        for other in (size, *sorted(multiples - {size})):
            if _halve(problem, {size, other}.__contains__, min(size, other)):
                break


def _sizes(candidate: ReducedCase) -> set[int]:
    types = (value.type for value in module_of(candidate).values())
    numbers = (number for type_ in types for number in dimensions(type_) or ())
    return {number for number in numbers if number > 1}


def _halve(
    problem: ReductionProblem, is_chosen: Callable[[int], bool], number: int
) -> bool:
    """Halve the chosen numbers until this one is 2, or half as often if the failure
    does not stay. Return whether any program was valid.
    """
    start = problem.current
    halved = (
        _with_halved(start, is_chosen, times)
        for times in range((number - 1).bit_length() - 1, 0, -1)
    )
    valid = [smaller for smaller in halved if problem.is_new(smaller)]
    for smaller in (valid[:1], valid[len(valid) // 2 :][:1]):
        if problem.take_first(smaller) is not None:
            break
    return bool(valid)


def _with_halved(
    candidate: ReducedCase, is_chosen: Callable[[int], bool], times: int
) -> ReducedCase:
    """Return the candidate with smaller sizes in its types, and smaller numbers in the
    arrays that repeat sizes or count in them.
    """

    def smaller(number: int) -> int:
        if number > 1 and is_chosen(number):
            return -(-number >> times)  # rounded up
        return number

    def change(module: Module, _: Copies) -> None:
        for value in module.values():
            numbers = dimensions(value.type)
            if numbers:
                value.type = reshaped(value.type, list(map(smaller, numbers)))
        for operation in module.walk():
            if operation.attribute("function_type"):
                update_function_type(operation)
            for holder in (operation.properties, operation.attributes):
                literal, typed, __ = holder.get("value", "").rpartition(" : ")
                if operation.name == "arith.constant" and "dense" in literal and typed:
                    holder["value"] = f"{literal} : {operation.results[0].type}"
                for name in holder.keys() - _NOT_SIZES:
                    holder[name] = _with_smaller(name, holder[name], smaller)

    return changed(candidate, change)


def _with_smaller(name: str, text: str, smaller: Callable[[int], int]) -> str:
    """Return an attribute with smaller numbers, if it is an array of integers."""
    if not text.startswith("array<i"):
        return text
    # small numbers of other arrays may count dimensions
    least = 1 if name.startswith("static_") else _SMALL

    def replaced(match: re.Match[str]) -> str:
        number = int(match[0])
        return str(smaller(number) if number > least else number)

    return _NUMBER.sub(replaced, text)
