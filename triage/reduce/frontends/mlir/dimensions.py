"""Which dimensions of a module must be the same number, and a module with other numbers.

What an operation says of its dimensions is read from its indexing maps and, for reshapes, from its reassociation; of an
operation that is not known, equal numbers are taken for the same dimension. A wrong guess makes a program that does not
verify, which costs nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.mlir import Module, Operation, Value, parse_module
from triage.mlir.tree import split
from triage.reduce.draft import Draft
from triage.reduce.frontends.mlir.cut import body_of, function_type
from triage.reduce.frontends.mlir.document import MlirDocument, copy_module, module_of, with_module
from triage.reduce.search import InterestingnessTest

Place = tuple[Value, int]
DYNAMIC = -1
_SHAPED = re.compile(r"((?:tensor|vector|memref)<)((?:(?:\d+|\?)x)+)(?=[a-z!])")
_LISTED = re.compile(r"(!torch\.vtensor<)\[([\d?,\s]+)\]")
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


def dimensions(kind: str) -> list[int] | None:
    """The dimensions of a shaped type, DYNAMIC for `?`; None for any other type and for rank 0."""
    if found := _SHAPED.match(kind):
        return [DYNAMIC if text == "?" else int(text) for text in found[2].split("x")[:-1]]
    if found := _LISTED.match(kind):
        return [DYNAMIC if text.strip() == "?" else int(text) for text in found[2].split(",")]
    return None


def reshaped(kind: str, numbers: list[int]) -> str:
    """The type with other dimensions, as many as it has."""
    texts = ["?" if number == DYNAMIC else str(number) for number in numbers]
    if found := _SHAPED.match(kind):
        return f"{found[1]}{''.join(f'{text}x' for text in texts)}{kind[found.end() :]}"
    found = _LISTED.match(kind)
    assert found
    return f"{found[1]}[{','.join(texts)}]{kind[found.end() :]}"


@dataclass(slots=True)
class Classes:
    """Sets of places that share their number. groups: a product of some classes that another one equals."""

    parents: dict[Place, Place] = field(default_factory=dict)
    numbers: dict[Place, int] = field(default_factory=dict)
    groups: list[tuple[Place, list[Place]]] = field(default_factory=list)

    def root(self, place: Place) -> Place:
        """The place that stands for the class."""
        while self.parents.setdefault(place, place) != place:
            self.parents[place] = self.parents[self.parents[place]]
            place = self.parents[place]
        return place

    def join(self, one: Place, other: Place) -> None:
        """Two places share their number, if they do so far."""
        if self.numbers.get(one) == self.numbers.get(other):
            self.parents[self.root(one)] = self.root(other)

    def changed(self, place: Place, number: int) -> dict[Place, int] | None:
        """What follows from giving a class another number, by class; None where products cannot be kept."""
        new = {self.root(place): number}
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
                    return None
            if stable:
                return new
        return None

    def sizes(self) -> dict[Place, int]:
        """Each class by its root, with its number."""
        return {self.root(place): number for place, number in self.numbers.items()}


def _divide(new: dict[Place, int], roots: list[Place], now: list[int], want: int) -> bool:
    """Make one factor smaller so that the product is `want`; whether that was possible."""
    ratio, rest = divmod(math.prod(now), want)
    for root, number in sorted(zip(roots, now, strict=True), key=lambda one: -one[1]):
        if not rest and ratio > 1 and number % ratio == 0 and root not in new:
            new[root] = number // ratio
            return True
    return False


def classes_of(module: Module) -> Classes:
    """The classes of all dimensions in the module's functions."""
    classes = Classes()
    for one in module.walk():
        for value in (*one.results, *(value for region in one.regions for block in region.blocks for value in block.arguments)):
            for index, number in enumerate(dimensions(value.type) or ()):
                classes.numbers[value, index] = number
    for one in module.walk():
        _join(classes, one, module.aliases)
    return classes


def _join(classes: Classes, one: Operation, aliases: Mapping[str, str]) -> None:
    maps = list(_maps(one, aliases))
    if maps:
        by_name: dict[str, Place] = {}
        for value, names in zip(one.operands, maps, strict=False):
            for index, name in enumerate(names):
                if (value, index) in classes.numbers and re.fullmatch(r"\w+", name):
                    classes.join((value, index), by_name.setdefault(name, (value, index)))
        for value, out in zip(one.results, one.operands[-len(one.results) :], strict=False):
            _join_all(classes, value, out)
    elif one.name in _RESHAPES:
        _join_reshape(classes, one)
    elif one.name == "linalg.fill" and one.results:
        _join_all(classes, one.results[0], one.operands[-1])
    elif one.name not in _KNOWN and not one.attribute("function_type"):
        _join_equal(classes, one)


def _maps(one: Operation, aliases: Mapping[str, str]) -> Iterator[list[str]]:
    """For each operand the names of its dimensions; nothing for an operation that does not tell them."""
    if text := one.attribute("indexing_maps"):
        for name in split(text[1:-1]):
            found = _MAP.search(aliases.get(name, name))
            yield split(found[1]) if found else []
    else:
        yield from ([*names] for names in _NAMED_MAPS.get(one.name, ()))


def _join_all(classes: Classes, one: Value, other: Value) -> None:
    for index in range(len(dimensions(one.type) or ())):
        if (other, index) in classes.numbers:
            classes.join((one, index), (other, index))


def _join_reshape(classes: Classes, one: Operation) -> None:
    text = one.attribute("reassociation") or "[]"
    folded, unfolded = one.operands[0], one.results[0]
    if one.name == "tensor.collapse_shape":
        folded, unfolded = unfolded, folded
    for index, group in enumerate(split(text[1:-1])):
        factors = [(unfolded, int(number)) for number in split(group[1:-1])]
        if len(factors) == 1:
            classes.join(factors[0], (folded, index))
        else:
            classes.groups.append(((folded, index), list(factors)))


def _join_equal(classes: Classes, one: Operation) -> None:
    """Of an unknown operation: values of one type agree dimension by dimension, others wherever numbers are equal."""
    inner = [value for region in one.regions for block in region.blocks for value in block.arguments]
    values = [value for value in (*one.operands, *one.results, *inner) if dimensions(value.type)]
    kinds: dict[str, Value] = {}
    for value in values:
        _join_all(classes, value, kinds.setdefault(value.type, value))
    by_number: dict[int, Place] = {}
    for value in kinds.values():
        for index, number in enumerate(dimensions(value.type) or ()):
            if number > 1 and len(kinds) > 1:
                classes.join((value, index), by_number.setdefault(number, (value, index)))


def with_dimensions(module: Module, classes: Classes, new: Mapping[Place, int]) -> Module:
    """The module with other numbers for some classes, in its types and in the attributes that repeat them."""
    made, values = copy_module(module)
    renamed: dict[str, str] = {}
    for old, value in values.items():
        if (numbers := dimensions(old.type)) is None:
            continue
        wanted = [new.get(classes.root((old, index)), number) for index, number in enumerate(numbers)]
        if wanted != numbers:
            value.type = renamed[old.type] = reshaped(old.type, wanted)
    for one in made.walk():
        if one.attribute("function_type") and (block := body_of(one)):
            (one.properties if "function_type" in one.properties else one.attributes)["function_type"] = function_type(
                block.arguments, block.operations[-1].operands
            )
        if one.name == "arith.constant":
            text = one.properties.get("value", one.attributes.get("value", ""))
            head, found, _ = text.rpartition(" : ")
            if found and one.results[0].type.startswith(("tensor", "vector")):
                (one.properties if "value" in one.properties else one.attributes)["value"] = f"{head} : {one.results[0].type}"
        for name in ("static_output_shape", "static_sizes"):
            numbers = dimensions(one.results[0].type) if one.results else None
            text = one.properties.get(name, "")
            if numbers and text.count(",") + 1 == len(numbers):
                told = ", ".join(str(-(1 << 63) if number == DYNAMIC else number) for number in numbers)
                one.properties[name] = f"array<i64: {told}>"
    return made


_SMALL = 4  # a dimension that nobody would make smaller by hand
_NARROW_FLOAT = re.compile(r"(?<![\w#.])(?:bf16|f16|f8E\w+|f64)(?!\w)")


def shrink_dimensions(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Halve all dimensions together as often as the failure stays, then take each, the largest first, as far down as it
    still fails. That smaller ones fail where larger ones do is assumed, not known: a smaller one may be missed.
    """
    draft = _descend(draft, hunt, None)
    tried: set[int] = set()
    while True:
        classes = classes_of(module_of(draft))
        order = list(classes.sizes().items())
        left = [(index, number) for index, (_, number) in enumerate(order) if number > _SMALL and index not in tried]
        if not left:
            return draft
        index, _ = max(left, key=lambda one: one[1])
        tried.add(index)
        draft = _descend(draft, hunt, index)


def _descend(draft: Draft, hunt: InterestingnessTest, index: int | None) -> Draft:
    """Bisect how often a class (all without `index`) can be halved."""
    steps = [made for made in _ladder(draft, index) if hunt.sound(made)]
    low, high, best = 0, len(steps) - 1, draft
    while low <= high:
        middle = (low + high + 1) // 2
        if hunt.first([steps[middle]]) is not None:
            best, low = steps[middle], middle + 1
        else:
            high = middle - 1
    return best


def _ladder(draft: Draft, index: int | None) -> Iterator[Draft]:
    """The draft with a class halved once, twice, ... down to 1; with all classes where no index is given."""
    module = module_of(draft)
    classes = classes_of(module)
    order = list(classes.sizes().items())
    chosen = [order[index]] if index is not None else order
    for shift in range(1, max((number for _, number in chosen), default=0).bit_length()):
        new = _halved(classes, chosen, shift)
        if new:
            yield with_module(draft, with_dimensions(module, classes, new))


def _halved(classes: Classes, chosen: list[tuple[Place, int]], shift: int) -> dict[Place, int]:
    """What follows, by class, from halving the chosen ones so often; products are worked out from their factors."""
    if len(chosen) == 1:
        place, number = chosen[0]
        return classes.changed(place, max(1, number >> shift)) or {}
    products = {classes.root(whole) for whole, _ in classes.groups}
    new: dict[Place, int] = {}
    for place, number in chosen:
        if number not in (1, DYNAMIC) and place not in products:
            followed = classes.changed(place, max(1, number >> shift)) or {}
            new = {other: value for other, value in followed.items() if other not in products} | new
    for _ in range(len(classes.groups) + 1):
        for whole, factors in classes.groups:
            numbers = [new.get(root, classes.numbers[root]) for root in map(classes.root, factors)]
            if DYNAMIC not in numbers and classes.numbers[classes.root(whole)] != DYNAMIC:
                new[classes.root(whole)] = math.prod(numbers)
    return {place: number for place, number in new.items() if number != classes.numbers[place]}


def widen_elements(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """f32 in the place of other floating-point types, all at once."""
    assert isinstance(draft.document, MlirDocument)
    text = draft.document.text
    plain = _NARROW_FLOAT.sub("f32", text)
    if plain == text or (module := _parsed(plain)) is None:
        return draft
    made = with_module(draft, module)
    return (hunt.sound(made) and hunt.first([made])) or draft


def _parsed(text: str) -> Module | None:
    try:
        return parse_module(text)
    except ValueError:
        return None
