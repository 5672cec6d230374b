"""The form of MLIR modules, and passes that rewrite a module: folding, shapes,
attributes, constants.

The key insight about dimensions: equal numbers are most often the same dimension, so
one number is replaced by a smaller one wherever it is the size of a dimension. Only
reshapes need more, where a dimension is the product of others. A wrong guess makes a
program that does not verify, which costs no compile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path

from triage.mlir import Module, UnparsableError, parse_module
from triage.mlir.rewrite import (
    DYNAMIC,
    dimensions,
    reshaped,
)
from triage.mlir.tree import Operation, array_elements
from triage.reduce.frontends.mlir_operations import (
    bypass_operations,
    drop_operations,
    drop_results,
    find_failing_part,
    thin_bodies,
)
from triage.reduce.frontends.mlir_program import (
    Checker,
    Copies,
    MlirProgram,
    changed,
    mlir_program_of,
    module_of,
    name_arguments,
    update_function_type,
    with_module,
)
from triage.reduce.problem import Form, ReductionProblem
from triage.reduce.program import ReducedCase, UnreadableError
from triage.reduce.settings import drop_flags, fewer_devices

_ELIDED = "dense_resource<__elided__>"  # parses, but is not a program
_LARGE = 4 << 20  # bytes of a file from which it is first read without its constants
_FOLD = ("--canonicalize", "--cse", "--mlir-print-op-generic")
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
_SMALL = 4  # dimensions up to this size stay as they are
# attributes that repeat sizes, or count in them
_SIZES = ("static_output_shape", "static_sizes", "static_offsets")
_NUMBER = re.compile(r"(?<=[ ,])\d+(?=[,>])")

Attribute = tuple[Operation, str]  # and its name
Product = tuple[int, list[int]]  # a dimension and its factors


def mlir_form(checker: Checker) -> Form:
    """Return the form of MLIR as text or bytecode."""
    return Form(
        partial(_open, checker),
        (
            bypass_operations,
            drop_operations,
            drop_results,
            thin_bodies,
            fold,
            shorten_constants,
        ),
        (shrink_dimensions, drop_attributes, fewer_devices, drop_flags),
        find_failing_part,
        checker.notes,
        "its generic form",
    )


def _open(checker: Checker, path: Path) -> Iterator[MlirProgram]:
    is_large = path.stat().st_size > _LARGE
    for elide in dict.fromkeys((is_large, False)):
        text = checker.reader.generic_form(path, elide=elide)
        if text is None:
            error = (checker.reader.parse_error(path) or "").rpartition("error: ")[2]
            raise UnreadableError(f"the toolchain's tools do not read it ({error})")
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
        program = MlirProgram(module, checker)
        if _ELIDED not in program.text:
            checker.try_on(program.text)
            yield program


def fold(problem: ReductionProblem) -> None:
    """Let the compiler canonicalize the program, where that makes it smaller."""
    start = problem.current
    reader = mlir_program_of(start).checker.reader
    text = reader.text_after_passes(mlir_program_of(start).text, _FOLD)
    with suppress(UnparsableError):
        module = parse_module(text or "")
        name_arguments(module, module_of(start))
        folded = with_module(start, module)
        if folded.program.size < start.program.size:
            problem.take_first([folded])


def drop_attributes(problem: ReductionProblem) -> None:
    """Drop attributes. A kind of attribute that the program is invalid without costs no
    compile.
    """
    start = problem.current

    def kind(attribute: Attribute) -> tuple[str, str]:
        return attribute[0].name, attribute[1]

    def without(dropped: Sequence[Attribute]) -> ReducedCase:
        return _with_attributes(start, dropped, lambda _: None)

    attributes = [
        (operation, name)
        for operation in module_of(start).root.walk()
        for name in (*operation.attributes, *operation.properties)
        if name not in _NEEDED
    ]
    # One attribute of each kind is checked: operations of a name need the same
    # attributes.
    first = {kind(attribute): attribute for attribute in reversed(attributes)}
    valid = {name for name, one in first.items() if problem.is_new(without([one]))}
    droppable = [attribute for attribute in attributes if kind(attribute) in valid]
    problem.delete(droppable, without, kind_of=kind)


def shorten_constants(problem: ReductionProblem) -> None:
    """Replace long constants by ones with a single value."""
    start = problem.current
    long = [
        (operation, name)
        for operation in module_of(start).root.walk()
        for name, text in {**operation.attributes, **operation.properties}.items()
        if with_one_value(text) != text
    ]
    problem.delete(
        long, lambda dropped: _with_attributes(start, dropped, with_one_value)
    )


def _with_attributes(
    candidate: ReducedCase,
    attributes: Collection[Attribute],
    new_text: Callable[[str], str | None],
) -> ReducedCase:
    """Return the candidate with other texts for some attributes, None to drop them, and
    without unused resources.
    """

    def change(module: Module, new: Copies) -> None:
        for operation, name in attributes:
            for holder in (new[operation].attributes, new[operation].properties):
                text = new_text(holder.pop(name)) if name in holder else None
                if text is not None:
                    holder[name] = text
        texts = (text for each in module.root.walk() for text in each.texts())
        if not any("dense_resource<" in text for text in texts):
            module.trailer = ""

    return changed(candidate, change)


def with_one_value(text: str) -> str:
    """Return a constant's text with one value instead of a long list, or the text
    itself when it is short.
    """
    found = _LONG.match(text)
    if found is None or (found[1] == "dense" and len(found.group()) <= _LONGEST):
        return text
    element = _ELEMENT.search(text[found.end() :])
    if element is None:
        return text
    value = "1.000000e+00"
    if element[1] == "i1":
        value = "true"
    elif element[1].startswith(("i", "ui", "si")):
        value = "1"
    return f"dense<{value}>{text[found.end() :]}"


def shrink_dimensions(problem: ReductionProblem) -> None:
    """Halve all dimensions together as often as the failure stays, then each size
    alone, the largest first.
    """
    _shrink_sizes(problem, _sizes(problem.current))
    for number in sorted(_sizes(problem.current), reverse=True):
        if number > _SMALL and number in _sizes(problem.current):
            _shrink_sizes(problem, [number])


def _sizes(candidate: ReducedCase) -> list[int]:
    types = (value.type for value in module_of(candidate).values())
    numbers = [number for type_ in types for number in dimensions(type_) or ()]
    return [number for number in dict.fromkeys(numbers) if number != DYNAMIC]


def _shrink_sizes(problem: ReductionProblem, chosen: Collection[int]) -> None:
    """Bisect how often some sizes can be halved together, which assumes that a
    program which fails also fails with larger dimensions.
    """
    start = problem.current
    products = list(_products(module_of(start)))
    halved = [
        _with_sizes(start, _halve_sizes(chosen, shift, products))
        for shift in range(1, max(chosen, default=0).bit_length())
    ]
    steps = [smaller for smaller in halved if problem.is_new(smaller)]
    low, high = 0, len(steps) - 1
    while low <= high:
        middle = (low + high + 1) // 2
        if problem.take_first([steps[middle]]) is not None:
            low = middle + 1
        else:
            high = middle - 1


def _products(module: Module) -> Iterator[Product]:
    """Yield each dimension that a reshape folds from several, with those factors."""
    for operation in module.walk():
        if operation.name not in ("tensor.collapse_shape", "tensor.expand_shape"):
            continue
        ends = operation.operands[0], operation.results[0]
        unfolded, folded = (dimensions(value.type) or [] for value in ends)
        if operation.name == "tensor.expand_shape":
            folded, unfolded = unfolded, folded
        groups = array_elements(operation.attribute("reassociation"))
        for number, group in zip(folded, groups, strict=False):
            factors = [unfolded[int(index)] for index in array_elements(group)]
            if len(factors) > 1 and DYNAMIC not in factors:
                yield number, factors


def _halve_sizes(
    chosen: Collection[int], shift: int, products: list[Product]
) -> dict[int, int]:
    """Return all new sizes when the chosen ones are halved `shift` times.

    A product follows from its factors. If it is the only size that was chosen, its
    largest factor is halved instead.
    """
    product_sizes = {number for number, _ in products}
    shrunk = set(chosen) - product_sizes
    if len(chosen) == 1:
        shrunk |= {max(factors) for number, factors in products if number in chosen}
    new = {number: max(1, number >> shift) for number in shrunk}
    for _ in products:  # a product may be a factor of another one
        for number, factors in products:
            new[number] = prod(new.get(factor, factor) for factor in factors)
    return new


def _with_sizes(candidate: ReducedCase, new_sizes: Mapping[int, int]) -> ReducedCase:
    """Return the candidate with other sizes, in its types and in the attributes that
    repeat them.
    """

    def new_size(number: int) -> int:
        return new_sizes.get(number, number)

    def change(module: Module, _: Copies) -> None:
        for value in module.values():
            numbers = dimensions(value.type)
            if numbers:
                value.type = reshaped(value.type, list(map(new_size, numbers)))
        for operation in module.walk():
            if operation.attribute("function_type"):
                update_function_type(operation)
            for holder in (operation.properties, operation.attributes):
                literal, typed, __ = holder.get("value", "").rpartition(" : ")
                if operation.name == "arith.constant" and "dense" in literal and typed:
                    holder["value"] = f"{literal} : {operation.results[0].type}"
                for name in _SIZES:
                    if name in holder:
                        holder[name] = _NUMBER.sub(
                            lambda found: str(new_size(int(found[0]))), holder[name]
                        )

    return changed(candidate, change)
