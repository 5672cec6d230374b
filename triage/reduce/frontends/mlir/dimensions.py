"""Makes the dimensions of a module smaller, with all dimensions that must be equal.

Indexing maps and the reassociation of reshapes say which dimensions are equal. For an unknown operation, equal numbers are
taken for the same dimension. A wrong guess makes a program that does not verify, which costs no compile.
"""

from __future__ import annotations

import math
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
_NAMED_MAPS = {
    "linalg.matmul": ("mk", "kn", "mn"),
    "linalg.matmul_transpose_a": ("km", "kn", "mn"),
    "linalg.matmul_transpose_b": ("mk", "nk", "mn"),
    "linalg.batch_matmul": ("bmk", "bkn", "bmn"),
    "linalg.batch_matmul_transpose_a": ("bkm", "bkn", "bmn"),
    "linalg.batch_matmul_transpose_b": ("bmk", "bnk", "bmn"),
    "linalg.matvec": ("mk", "k", "m"),
    "linalg.vecmat": ("k", "kn", "n"),
    "linalg.batch_matvec": ("bmk", "bk", "bm"),
    "linalg.dot": ("k", "k", ""),
}
_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
_KNOWN = frozenset(("tensor.empty", "arith.constant", "tensor.dim", "linalg.index", "tensor.extract", "linalg.fill"))


@dataclass(slots=True)
class DimensionClasses:
    """Sets of dimensions that are equal (union-find). groups: a dimension that is the product of others."""

    parents: dict[Dimension, Dimension] = field(default_factory=dict)
    numbers: dict[Dimension, int] = field(default_factory=dict)
    groups: list[tuple[Dimension, list[Dimension]]] = field(default_factory=list)

    def root(self, dimension: Dimension) -> Dimension:
        """Return the dimension that represents the class."""
        while self.parents.setdefault(dimension, dimension) != dimension:
            self.parents[dimension] = self.parents[self.parents[dimension]]
            dimension = self.parents[dimension]
        return dimension

    def join(self, dimension: Dimension, other: Dimension) -> None:
        """Put two dimensions into one class, if their numbers are equal."""
        if self.numbers.get(dimension) == self.numbers.get(other):
            self.parents[self.root(dimension)] = self.root(other)

    def changed(self, dimension: Dimension, number: int) -> dict[Dimension, int]:
        """Return all new numbers, by class, when one class gets another number; empty when a product cannot be kept."""
        new = {self.root(dimension): number}
        for _ in range(len(self.groups) + 1):
            stable = True
            for product, factors in self.groups:
                roots = [self.root(factor) for factor in factors]
                now = [new.get(root, self.numbers[root]) for root in roots]
                whole = self.root(product)
                want = new.get(whole, self.numbers[whole])
                if DYNAMIC in now or want == DYNAMIC or math.prod(now) == want:
                    continue
                stable = False
                if whole not in new:
                    new[whole] = math.prod(now)
                elif not _divide(new, roots, now, want):
                    return {}
            if stable:
                return new
        return {}

    def sizes(self) -> dict[Dimension, int]:
        """Return the number of each class, by its root."""
        return {self.root(dimension): number for dimension, number in self.numbers.items()}


def _divide(new: dict[Dimension, int], roots: list[Dimension], now: list[int], want: int) -> bool:
    """Make one factor smaller so that the product is `want`. Returns whether that is possible."""
    ratio, rest = divmod(math.prod(now), want)
    for root, number in sorted(zip(roots, now, strict=True), key=lambda entry: -entry[1]):
        if not rest and ratio > 1 and number % ratio == 0 and root not in new:
            new[root] = number // ratio
            return True
    return False


def dimension_classes(module: Module) -> DimensionClasses:
    """Return the classes of all dimensions in the module's functions."""
    classes = DimensionClasses()
    for operation in module.walk():
        arguments = (value for region in operation.regions for block in region.blocks for value in block.arguments)
        for value in (*operation.results, *arguments):
            for index, number in enumerate(dimensions(value.type) or ()):
                classes.numbers[value, index] = number
    for operation in module.walk():
        _join(classes, operation, module.aliases)
    return classes


def _join(classes: DimensionClasses, operation: Operation, aliases: Mapping[str, str]) -> None:
    maps = list(_maps(operation, aliases))
    if maps:
        by_name: dict[str, Dimension] = {}
        for value, names in zip(operation.operands, maps, strict=False):
            for index, name in enumerate(names):
                if (value, index) in classes.numbers and re.fullmatch(r"\w+", name):
                    classes.join((value, index), by_name.setdefault(name, (value, index)))
        for value, out in zip(operation.results, operation.operands[-len(operation.results) :], strict=False):
            _join_all(classes, value, out)
    elif operation.name in _RESHAPES:
        _join_reshape(classes, operation)
    elif operation.name == "linalg.fill" and operation.results:
        _join_all(classes, operation.results[0], operation.operands[-1])
    elif operation.name not in _KNOWN and not operation.attribute("function_type"):
        _join_equal(classes, operation)


def _maps(operation: Operation, aliases: Mapping[str, str]) -> Iterator[list[str]]:
    """For each operand the names of its dimensions; nothing for an operation without indexing maps."""
    if text := operation.attribute("indexing_maps"):
        for name in array_elements(text):
            found = _MAP.search(aliases.get(name, name))
            yield split(found[1]) if found else []
    else:
        yield from ([*names] for names in _NAMED_MAPS.get(operation.name, ()))


def _join_all(classes: DimensionClasses, value: Value, other: Value) -> None:
    for index in range(len(dimensions(value.type) or ())):
        if (other, index) in classes.numbers:
            classes.join((value, index), (other, index))


def _join_reshape(classes: DimensionClasses, operation: Operation) -> None:
    text = operation.attribute("reassociation") or "[]"
    folded, unfolded = operation.operands[0], operation.results[0]
    if operation.name == "tensor.collapse_shape":
        folded, unfolded = unfolded, folded
    for index, group in enumerate(array_elements(text)):
        factors = [(unfolded, int(number)) for number in array_elements(group)]
        if len(factors) == 1:
            classes.join(factors[0], (folded, index))
        else:
            classes.groups.append(((folded, index), list(factors)))


def _join_equal(classes: DimensionClasses, operation: Operation) -> None:
    """For an unknown operation: join the values of one type dimension by dimension, others where numbers are equal."""
    inner = [value for region in operation.regions for block in region.blocks for value in block.arguments]
    values = [value for value in (*operation.operands, *operation.results, *inner) if dimensions(value.type)]
    kinds: dict[str, Value] = {}
    for value in values:
        _join_all(classes, value, kinds.setdefault(value.type, value))
    by_number: dict[int, Dimension] = {}
    for value in kinds.values():
        for index, number in enumerate(dimensions(value.type) or ()):
            if number > 1 and len(kinds) > 1:
                classes.join((value, index), by_number.setdefault(number, (value, index)))


def with_dimensions(module: Module, classes: DimensionClasses, new: Mapping[Dimension, int]) -> Module:
    """Return the module with other numbers for some classes, in its types and in the attributes that repeat them."""
    copy, values = copy_module(module)
    for old, value in values.items():
        numbers = dimensions(old.type) or []
        wanted = [new.get(classes.root((old, index)), number) for index, number in enumerate(numbers)]
        if wanted != numbers:
            value.type = reshaped(old.type, wanted)
    for operation in copy.walk():
        if operation.attribute("function_type"):
            update_function_type(operation)
        holder = operation.properties if "value" in operation.properties else operation.attributes
        if operation.name == "arith.constant" and operation.results[0].type.startswith(("tensor", "vector")):
            literal, found, _ = holder.get("value", "").rpartition(" : ")
            if found:
                holder["value"] = f"{literal} : {operation.results[0].type}"
        numbers = (dimensions(operation.results[0].type) or []) if operation.results else []
        for name in ("static_output_shape", "static_sizes"):
            if numbers and operation.properties.get(name, "").count(",") + 1 == len(numbers) and name in operation.properties:
                sizes = ", ".join(str(-(1 << 63) if number == DYNAMIC else number) for number in numbers)
                operation.properties[name] = f"array<i64: {sizes}>"
    return copy


_SMALL = 4  # dimensions up to this size stay as they are


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
    """The candidate with a class (all classes for None) halved once, twice, ... down to 1."""
    module = module_of(candidate)
    classes = dimension_classes(module)
    sizes = list(classes.sizes().items())
    chosen = [sizes[index]] if index is not None else sizes
    for shift in range(1, max((number for _, number in chosen), default=0).bit_length()):
        new = _halved(classes, chosen, shift)
        if new:
            yield with_module(candidate, with_dimensions(module, classes, new))


def _halved(classes: DimensionClasses, chosen: list[tuple[Dimension, int]], shift: int) -> dict[Dimension, int]:
    """All new numbers, by class, when the chosen classes are halved `shift` times. Products follow from their factors."""
    if len(chosen) == 1:
        dimension, number = chosen[0]
        return classes.changed(dimension, max(1, number >> shift))
    products = {classes.root(product) for product, _ in classes.groups}
    new: dict[Dimension, int] = {}
    for dimension, number in chosen:
        if number not in (1, DYNAMIC) and dimension not in products:
            followed = classes.changed(dimension, max(1, number >> shift))
            new = {other: size for other, size in followed.items() if other not in products} | new
    for _ in range(len(classes.groups) + 1):
        for product, factors in classes.groups:
            numbers = [new.get(root, classes.numbers[root]) for root in map(classes.root, factors)]
            if DYNAMIC not in numbers and classes.numbers[classes.root(product)] != DYNAMIC:
                new[classes.root(product)] = math.prod(numbers)
    return {dimension: number for dimension, number in new.items() if number != classes.numbers[dimension]}
