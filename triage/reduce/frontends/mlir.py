"""The frontend for MLIR modules, and passes that rewrite a module: folding, shapes,
attributes, constants, types.

The key insight about dimensions: equal numbers are most often the same dimension, so
one number is replaced by a smaller one wherever it is the size of a dimension. Only
reshapes need more, where a dimension is the product of others. A wrong guess makes a
program that does not verify, which costs no compile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path

from triage.mlir import Module, UnparsableError, parse_module, print_module
from triage.mlir.rewrite import (
    DYNAMIC,
    dimensions,
    reshaped,
    set_static_arguments,
)
from triage.mlir.tree import array_elements
from triage.reduce.engine import (
    Frontend,
    Pass,
    drop_flags,
    fewer_devices,
    minimise,
)
from triage.reduce.frontends.mlir_operations import (
    bypass_operations,
    drop_operations,
    drop_results,
    jump,
    keep_window,
    one_function,
    thin_bodies,
)
from triage.reduce.frontends.mlir_program import (
    Checker,
    MlirProgram,
    copy_module,
    module_of,
    name_arguments,
    program_of,
    update_function_type,
    with_module,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase, UnreadableError

_ELIDED = "dense_resource<__elided__>"  # parses, but is not a program
_LARGE = 4 << 20  # bytes of a file from which it is first read without its constants
_FOLD = ("--canonicalize", "--cse", "--mlir-print-op-generic")
_STATIC = 64  # replaces an unknown dimension; later passes make it smaller
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

Attribute = tuple[int, str]  # the position of its operation, and its name
Product = tuple[int, list[int]]  # a dimension and its factors


def mlir_frontend(checker: Checker) -> Frontend:
    """Return the frontend for MLIR as text or bytecode."""
    return Frontend(
        partial(_open, checker),
        (
            bypass_operations,
            drop_operations,
            drop_results,
            thin_bodies,
            fold,
            shorten_constants,
            make_static,
        ),
        (shrink_dimensions, drop_attributes, fewer_devices, drop_flags),
        _approach,
        checker.notes,
        "its generic form",
    )


def _open(checker: Checker, path: Path) -> Iterator[MlirProgram]:
    is_large = path.stat().st_size > _LARGE
    for elide in (True, False) if is_large else (False,):
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
                    named.update(
                        {name: with_one_value(text) for name, text in named.items()}
                    )
            module.trailer = ""
        name_arguments(module)
        program = MlirProgram(module, checker)
        if _ELIDED not in program.text:
            checker.try_on(program.text)
            yield program


def _approach(line: int | None) -> Pass:
    def approach(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
        found = jump(candidate, test, line) if line else None
        return found or keep_window(one_function(candidate, test), test)

    return approach


def _parse_if_possible(text: str | None) -> Module | None:
    """Parse a text; None if there is none or it cannot be parsed."""
    with suppress(UnparsableError):
        if text is not None:
            return parse_module(text)
    return None


def fold(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Let the compiler canonicalize the program, where that makes it smaller."""
    folded = _fold_module(candidate, module_of(candidate))
    if folded is None or folded.program.size >= candidate.program.size:
        return candidate
    return test.first([folded]) or candidate


def make_static(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Replace the unknown dimensions of arguments by a number and let the compiler
    propagate it.
    """

    def unknown(candidate: ReducedCase) -> int:
        results = (
            value
            for operation in module_of(candidate).walk()
            for value in operation.results
        )
        return sum((dimensions(value.type) or []).count(DYNAMIC) for value in results)

    module, _ = copy_module(module_of(candidate))
    if not set_static_arguments(module, _STATIC):
        return candidate
    static = _fold_module(candidate, module)
    if static is None or unknown(static) >= unknown(candidate):
        return candidate
    return test.first([static]) or candidate


def _fold_module(candidate: ReducedCase, module: Module) -> ReducedCase | None:
    """Return the candidate with a module that the compiler has canonicalized; None if
    it cannot.
    """
    folded = _parse_if_possible(
        program_of(candidate).checker.reader.text_after_passes(
            print_module(module), _FOLD
        )
    )
    if folded is None:
        return None
    name_arguments(folded, module)
    return with_module(candidate, folded)


def drop_attributes(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop attributes. A kind of attribute that the program is invalid without costs no
    compile.
    """
    kinds = {
        (index, name): (operation.name, name)
        for index, operation in enumerate(module_of(candidate).root.walk())
        for name in (*operation.attributes, *operation.properties)
        if name not in _NEEDED
    }

    def without(dropped: Collection[Attribute]) -> ReducedCase:
        return _with_attributes(candidate, dropped, lambda _: None)

    # One attribute of each kind is checked: operations of a name need the same
    # attributes.
    first = {kind: attribute for attribute, kind in reversed(kinds.items())}
    valid = {
        kind: test.is_valid_change(without([attribute]))
        for kind, attribute in first.items()
    }
    droppable = [attribute for attribute, kind in kinds.items() if valid[kind]]
    return minimise(
        candidate,
        droppable,
        lambda kept: without(set(droppable) - set(kept)),
        test,
        kind_of=kinds.__getitem__,
    )


def shorten_constants(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Replace long constants by ones with a single value."""
    long = [
        (index, name)
        for index, operation in enumerate(module_of(candidate).root.walk())
        for name, text in (*operation.attributes.items(), *operation.properties.items())
        if with_one_value(text) != text
    ]
    return minimise(
        candidate,
        long,
        lambda kept: _with_attributes(candidate, set(long) - set(kept), with_one_value),
        test,
    )


def _with_attributes(
    candidate: ReducedCase,
    attributes: Collection[Attribute],
    new_text: Callable[[str], str | None],
) -> ReducedCase:
    """Return the candidate with other texts for some attributes, None to drop them, and
    without unused resources.
    """
    module, _ = copy_module(module_of(candidate))
    operations = list(module.root.walk())
    for index, name in attributes:
        for holder in (operations[index].attributes, operations[index].properties):
            if name not in holder:
                continue
            text = new_text(holder[name])
            if text is None:
                del holder[name]
            else:
                holder[name] = text
    if not any(
        "dense_resource<" in text
        for operation in operations
        for text in operation.texts()
    ):
        module.trailer = ""
    return with_module(candidate, module)


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


def shrink_dimensions(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Halve all dimensions together as often as the failure stays, then each size
    alone, the largest first.

    Bisects the number of halvings, which assumes that a program which fails also fails
    with larger dimensions.
    """
    candidate = _descend(candidate, test, None)
    for number in sorted(_sizes(module_of(candidate)), reverse=True):
        if number > _SMALL and number in _sizes(module_of(candidate)):
            candidate = _descend(candidate, test, number)
    return candidate


def _sizes(module: Module) -> list[int]:
    return list(
        dict.fromkeys(
            number
            for value in module.values()
            for number in dimensions(value.type) or ()
        )
    )


def _descend(
    candidate: ReducedCase, test: InterestingnessTest, number: int | None
) -> ReducedCase:
    """Bisect how often a size, or all of them, can be halved."""
    module = module_of(candidate)
    products = list(_products(module))
    if number is not None:
        chosen = [number]
    else:
        chosen = [size for size in _sizes(module) if size != DYNAMIC]
    shifts = range(1, max(chosen, default=0).bit_length())
    halved = (
        with_module(
            candidate, _with_sizes(module, _halve_sizes(chosen, shift, products))
        )
        for shift in shifts
    )
    steps = [smaller for smaller in halved if test.is_valid_change(smaller)]
    low, high, best = 0, len(steps) - 1, candidate
    while low <= high:
        middle = (low + high + 1) // 2
        if test.first([steps[middle]]) is not None:
            best, low = steps[middle], middle + 1
        else:
            high = middle - 1
    return best


def _products(module: Module) -> Iterator[Product]:
    """Yield each dimension that a reshape folds from several, with those factors."""
    for operation in module.walk():
        if operation.name in ("tensor.collapse_shape", "tensor.expand_shape"):
            folded, unfolded = (
                dimensions(value.type) or []
                for value in (operation.operands[0], operation.results[0])
            )
            if operation.name == "tensor.collapse_shape":
                folded, unfolded = unfolded, folded
            for number, group in zip(
                folded,
                array_elements(operation.attribute("reassociation")),
                strict=False,
            ):
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
    new = {
        number: max(1, number >> shift)
        for number in chosen
        if number not in product_sizes
    }
    if len(chosen) == 1:
        new |= {
            max(factors): max(1, max(factors) >> shift)
            for number, factors in products
            if number in chosen
        }
    for _ in products:  # a product may be a factor of another one
        for number, factors in products:
            new[number] = prod(new.get(factor, factor) for factor in factors)
    return new


def _with_sizes(module: Module, new: Mapping[int, int]) -> Module:
    """Return the module with other sizes, in its types and in the attributes that
    repeat them.
    """
    copy, values = copy_module(module)
    for value in values.values():
        numbers = dimensions(value.type)
        if numbers:
            value.type = reshaped(
                value.type, [new.get(number, number) for number in numbers]
            )
    for operation in copy.walk():
        if operation.attribute("function_type"):
            update_function_type(operation)
        if not operation.results:
            continue
        type_ = operation.results[0].type
        if "value" in operation.properties:
            holder = operation.properties
        else:
            holder = operation.attributes
        literal, typed, _ = holder.get("value", "").rpartition(" : ")
        if (
            operation.name == "arith.constant"
            and type_.startswith(("tensor", "vector"))
            and typed
        ):
            holder["value"] = f"{literal} : {type_}"
        numbers = dimensions(type_) or []
        for name in ("static_output_shape", "static_sizes"):
            if (
                numbers
                and name in operation.properties
                and operation.properties[name].count(",") + 1 == len(numbers)
            ):
                sizes = ", ".join(
                    str(-(1 << 63) if number == DYNAMIC else number)
                    for number in numbers
                )
                operation.properties[name] = f"array<i64: {sizes}>"
    return copy
