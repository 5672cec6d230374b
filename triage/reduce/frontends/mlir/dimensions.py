"""Makes the dimensions of a module smaller.

The key insight: equal numbers are most often the same dimension, so one number is replaced by a smaller one wherever it is
the size of a dimension. Only reshapes need more, where a dimension is the product of others. A wrong guess makes a program
that does not verify, which costs no compile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import prod

from triage.mlir import Module
from triage.mlir.rewrite import DYNAMIC, dimensions, reshaped
from triage.mlir.tree import array_elements
from triage.reduce.frontends.mlir.document import copy_module, module_of, update_function_type, with_module
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate

_SMALL = 4  # dimensions up to this size stay as they are
Product = tuple[int, list[int]]  # a dimension and its factors


def shrink_dimensions(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Halve all dimensions together as often as the failure stays, then each size alone, the largest first.

    Bisects the number of halvings, which assumes that a program which fails also fails with larger dimensions.
    """
    candidate = _descend(candidate, test, None)
    for number in sorted(_sizes(module_of(candidate)), reverse=True):
        if number > _SMALL and number in _sizes(module_of(candidate)):
            candidate = _descend(candidate, test, number)
    return candidate


def _sizes(module: Module) -> list[int]:
    """Return the sizes of all dimensions, each once."""
    return list(dict.fromkeys(number for value in module.values() for number in dimensions(value.type) or ()))


def _descend(candidate: Candidate, test: InterestingnessTest, number: int | None) -> Candidate:
    """Bisect how often a size (all sizes for None) can be halved."""
    steps = [smaller for smaller in _halvings(candidate, number) if test.is_valid(smaller)]
    low, high, best = 0, len(steps) - 1, candidate
    while low <= high:
        middle = (low + high + 1) // 2
        if test.first([steps[middle]]) is not None:
            best, low = steps[middle], middle + 1
        else:
            high = middle - 1
    return best


def _halvings(candidate: Candidate, number: int | None) -> Iterator[Candidate]:
    """Yield the candidate with a size (all sizes for None) halved once, twice, ... down to 1."""
    module = module_of(candidate)
    products = list(_products(module))
    chosen = [number] if number is not None else [size for size in _sizes(module) if size != DYNAMIC]
    for shift in range(1, max(chosen, default=0).bit_length()):
        yield with_module(candidate, _with_sizes(module, _halved(chosen, shift, products)))


def _products(module: Module) -> Iterator[Product]:
    """Yield the dimensions that reshapes fold, with what they are unfolded to."""
    for operation in module.walk():
        if operation.name in ("tensor.collapse_shape", "tensor.expand_shape"):
            folded, unfolded = (dimensions(value.type) or [] for value in (operation.operands[0], operation.results[0]))
            if operation.name == "tensor.collapse_shape":
                folded, unfolded = unfolded, folded
            for number, group in zip(folded, array_elements(operation.attribute("reassociation")), strict=False):
                factors = [unfolded[int(index)] for index in array_elements(group)]
                if len(factors) > 1 and DYNAMIC not in factors:
                    yield number, factors


def _halved(chosen: Collection[int], shift: int, products: list[Product]) -> dict[int, int]:
    """Return all new sizes when the chosen ones are halved `shift` times. Products follow from their factors."""
    whole = {number for number, _ in products}
    new = {number: max(1, number >> shift) for number in chosen if number not in whole}
    if len(chosen) == 1:
        new |= {max(factors): max(1, max(factors) >> shift) for number, factors in products if number in chosen}
    for _ in products:  # a product may be a factor of another one
        for number, factors in products:
            new[number] = prod(new.get(factor, factor) for factor in factors)
    return new


def _with_sizes(module: Module, new: Mapping[int, int]) -> Module:
    """Return the module with other sizes, in its types and in the attributes that repeat them."""
    copy, values = copy_module(module)
    for value in values.values():
        if numbers := dimensions(value.type):
            value.type = reshaped(value.type, [new.get(number, number) for number in numbers])
    for operation in copy.walk():
        if operation.attribute("function_type"):
            update_function_type(operation)
        if not operation.results:
            continue
        type_ = operation.results[0].type
        holder = operation.properties if "value" in operation.properties else operation.attributes
        literal, typed, _ = holder.get("value", "").rpartition(" : ")
        if operation.name == "arith.constant" and type_.startswith(("tensor", "vector")) and typed:
            holder["value"] = f"{literal} : {type_}"
        numbers = dimensions(type_) or []
        for name in ("static_output_shape", "static_sizes"):
            if numbers and operation.properties.get(name, "").count(",") + 1 == len(numbers) and name in operation.properties:
                sizes = ", ".join(str(-(1 << 63) if number == DYNAMIC else number) for number in numbers)
                operation.properties[name] = f"array<i64: {sizes}>"
    return copy
