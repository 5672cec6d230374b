"""Smaller numbers for dimensions, through the whole program, and plainer element types."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from triage.mlir import Module, parse_module
from triage.reduce.draft import Draft
from triage.reduce.mlir.dimensions import DYNAMIC, Classes, Place, classes_of, with_dimensions
from triage.reduce.mlir.document import MlirDocument, module_of, with_module
from triage.reduce.search import Hunt

_SMALL = 4  # a dimension that nobody would make smaller by hand
_NARROW_FLOAT = re.compile(r"(?<![\w#.])(?:bf16|f16|f8E\w+|f64)(?!\w)")


def shrink_dimensions(draft: Draft, hunt: Hunt) -> Draft:
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


def _descend(draft: Draft, hunt: Hunt, index: int | None) -> Draft:
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


def widen_elements(draft: Draft, hunt: Hunt) -> Draft:
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
