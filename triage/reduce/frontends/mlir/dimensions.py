"""Makes the dimensions of a module smaller, with all dimensions that must shrink with them.

Indexing maps and the reassociation of reshapes say which dimensions belong together; for an unknown operation, equal numbers
are taken for the same dimension. A wrong guess makes a program that does not verify, which costs no compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.mlir import Module, Operation, Value
from triage.mlir.rewrite import DYNAMIC, dimensions, reshaped
from triage.mlir.tree import array_elements, split
from triage.reduce.frontends.mlir.document import copy_module, module_of, update_function_type, with_module
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate

Dimension = tuple[Value, int]  # of a value, by its index
_MAP = re.compile(r"\)\s*->\s*\((.*)\)\s*>?\s*\Z", re.DOTALL)
_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
_SEPARATE = frozenset(("tensor.empty", "arith.constant", "tensor.dim", "linalg.index", "tensor.extract"))
_SMALL = 4  # dimensions up to this size stay as they are


@dataclass(slots=True)
class DimensionClasses:
    """Sets of dimensions that shrink together (union-find)."""

    parents: dict[Dimension, Dimension] = field(default_factory=dict)
    numbers: dict[Dimension, int] = field(default_factory=dict)
    fixed: list[Dimension] = field(default_factory=list)
    """Factors of reshaped dimensions. They stay when all dimensions shrink together."""

    def root(self, dimension: Dimension) -> Dimension:
        """Return the dimension that represents the class."""
        while self.parents.setdefault(dimension, dimension) != dimension:
            self.parents[dimension] = self.parents[self.parents[dimension]]
            dimension = self.parents[dimension]
        return dimension

    def join(self, dimension: Dimension, other: Dimension) -> None:
        """Put two dimensions into one class."""
        self.parents[self.root(dimension)] = self.root(other)

    def join_equal(self, dimension: Dimension, other: Dimension) -> None:
        """Put two dimensions into one class, if their numbers are equal."""
        if self.numbers.get(dimension) == self.numbers.get(other):
            self.join(dimension, other)

    def join_values(self, value: Value, other: Value) -> None:
        """Join the dimensions of two values one by one."""
        for index in range(len(dimensions(value.type) or ())):
            if (other, index) in self.numbers:
                self.join_equal((value, index), (other, index))

    def sizes(self) -> dict[Dimension, int]:
        """Return the largest number of each class, by its root."""
        largest: dict[Dimension, int] = {}
        for dimension, number in self.numbers.items():
            root = self.root(dimension)
            largest[root] = max(number, largest.get(root, number))
        return largest


def dimension_classes(module: Module) -> DimensionClasses:
    """Return the classes of all dimensions in the module's functions."""
    classes = DimensionClasses()
    for value in module.values():
        for index, number in enumerate(dimensions(value.type) or ()):
            classes.numbers[value, index] = number
    for operation in module.walk():
        _join(classes, operation, module.aliases)
    return classes


def _join(classes: DimensionClasses, operation: Operation, aliases: Mapping[str, str]) -> None:
    if maps := operation.attribute("indexing_maps"):
        by_name: dict[str, Dimension] = {}
        for value, name in zip(operation.operands, array_elements(maps), strict=False):
            found = _MAP.search(aliases.get(name, name))
            for index, letter in enumerate(split(found[1]) if found else []):
                if (value, index) in classes.numbers and re.fullmatch(r"\w+", letter):
                    classes.join_equal((value, index), by_name.setdefault(letter, (value, index)))
        for value, out in zip(operation.results, operation.operands[-len(operation.results) :], strict=False):
            classes.join_values(value, out)
    elif operation.name in _RESHAPES:
        folded, unfolded = operation.operands[0], operation.results[0]
        if operation.name == "tensor.collapse_shape":
            folded, unfolded = unfolded, folded
        for index, group in enumerate(array_elements(operation.attribute("reassociation"))):
            factors = [(unfolded, int(number)) for number in array_elements(group)]
            largest = max(factors, key=lambda factor: classes.numbers.get(factor, 0))
            classes.join(largest, (folded, index))
            classes.fixed += [factor for factor in factors if factor != largest]
    elif operation.name not in _SEPARATE and not operation.attribute("function_type"):
        _join_unknown(classes, operation)


def _join_unknown(classes: DimensionClasses, operation: Operation) -> None:
    """Join the values of one type dimension by dimension, and those of several types where numbers are equal."""
    inner = [value for region in operation.regions for block in region.blocks for value in block.arguments]
    kinds: dict[str, Value] = {}
    for value in (*operation.operands, *operation.results, *inner):
        if dimensions(value.type):
            classes.join_values(value, kinds.setdefault(value.type, value))
    by_number: dict[int, Dimension] = {}
    several = len(kinds) > 1 or "matmul" in operation.name
    for value in kinds.values() if several else ():
        for index, number in enumerate(dimensions(value.type) or ()):
            if number > 1:
                classes.join((value, index), by_number.setdefault(number, (value, index)))


def with_smaller(module: Module, classes: DimensionClasses, shifts: Mapping[Dimension, int]) -> Module:
    """Return the module with the dimensions of some classes halved, in its types and in the attributes that repeat them.

    shifts: how often, by the root of the class.
    """
    copy, values = copy_module(module)
    for old, value in values.items():
        numbers = dimensions(old.type) or []
        roots = [classes.root((old, index)) for index in range(len(numbers))]
        wanted = [
            number if number == DYNAMIC else max(1, number >> shifts.get(root, 0))
            for number, root in zip(numbers, roots, strict=True)
        ]
        if wanted != numbers:
            value.type = reshaped(old.type, wanted)
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


def shrink_dimensions(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Halve all dimensions together as often as the failure stays, then each class alone, the largest first.

    Bisects the number of halvings, which assumes that a program which fails also fails with larger dimensions.
    """
    candidate = _descend(candidate, test, None)
    tried: set[int] = set()
    while True:
        sizes = dimension_classes(module_of(candidate)).sizes().values()
        left = [(index, number) for index, number in enumerate(sizes) if number > _SMALL and index not in tried]
        if not left:
            return candidate
        index, _ = max(left, key=lambda entry: entry[1])
        tried.add(index)
        candidate = _descend(candidate, test, index)


def _descend(candidate: Candidate, test: InterestingnessTest, index: int | None) -> Candidate:
    """Bisect how often a class (all classes for None) can be halved."""
    steps = [smaller for smaller in _halvings(candidate, index) if test.is_valid(smaller)]
    low, high, best = 0, len(steps) - 1, candidate
    while low <= high:
        middle = (low + high + 1) // 2
        if test.first([steps[middle]]) is not None:
            best, low = steps[middle], middle + 1
        else:
            high = middle - 1
    return best


def _halvings(candidate: Candidate, index: int | None) -> Iterator[Candidate]:
    """Yield the candidate with a class (all classes for None) halved once, twice, ... down to 1."""
    module = module_of(candidate)
    classes = dimension_classes(module)
    sizes = classes.sizes()
    fixed = {classes.root(dimension) for dimension in classes.fixed}
    chosen = [root for root in sizes if root not in fixed] if index is None else [list(sizes)[index]]
    for shift in range(1, max((sizes[root] for root in chosen), default=0).bit_length()):
        yield with_module(candidate, with_smaller(module, classes, dict.fromkeys(chosen, shift)))
