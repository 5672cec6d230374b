"""Straight to the failure: from where the compiler pointed outwards, and without such a place by halving."""

from __future__ import annotations

from collections.abc import Iterator

from triage.mlir import Module, Operation
from triage.mlir.tree import free_values
from triage.reduce.draft import Draft
from triage.reduce.mlir.cut import cut, pieces
from triage.reduce.mlir.document import module_of, with_module
from triage.reduce.search import Hunt

_NARROW = 4  # operations; a shorter window is left to the pass that removes single ones


def jump(draft: Draft, hunt: Hunt, line: int | None) -> Draft | None:
    """The operation at the source line `line` with as few neighbours as will do; None where that never fails."""
    if line is None:
        return None
    module = module_of(draft)
    return hunt.first(with_module(draft, one) for one in _neighbourhoods(module, line))


def _neighbourhoods(module: Module, line: int) -> Iterator[Module]:
    """Cuts around the operations of a line, which reach 0, 1, 2, 4, ... uses and definitions far."""
    for function in module.functions():
        able = pieces(function)
        seeds = [one for one in able if any(inner.line == line for inner in one.walk())]
        if not seeds:
            continue
        near = _neighbours(able)
        reached, edge, distance, wanted = set(seeds), list(seeds), 0, 0
        while True:
            if distance == wanted or not edge:
                if (made := cut(module, function, reached)) is not None:
                    yield made
                wanted = max(1, 2 * wanted)
            if not edge:
                break
            edge = list(dict.fromkeys(other for one in edge for other in near[one] if other not in reached))
            reached.update(edge)
            distance += 1


def _neighbours(able: list[Operation]) -> dict[Operation, list[Operation]]:
    """Which operations give an operation its values and which take what it gives."""
    maker = {value: one for one in able for value in one.results}
    near: dict[Operation, list[Operation]] = {one: [] for one in able}
    for one in able:
        for value in free_values(one):
            if (other := maker.get(value)) is not None:
                near[one].append(other)
                near[other].append(one)
    return near


def narrow(draft: Draft, hunt: Hunt) -> Draft:
    """Halves of functions, the largest first, until neither half fails alone; then what lies between them."""
    while True:
        module = module_of(draft)
        functions = sorted(module.functions(), key=lambda one: -len(pieces(one)))
        windows = (with_module(draft, made) for function in functions for made in _windows(module, function))
        found = hunt.first(one for one in windows if one.document.size < draft.document.size)
        if found is None:
            return draft
        draft = found


def _windows(module: Module, function: Operation) -> Iterator[Module]:
    able = pieces(function)
    count = len(able)
    if count <= _NARROW:
        if len(module.functions()) > 1 and count and (made := cut(module, function, able)) is not None:
            yield made
        return
    half, quarter = count // 2, count // 4
    spans = [(0, half), (half, count), (quarter, quarter + half), (0, count - quarter), (quarter, count)]
    if len(module.functions()) > 1:
        spans.insert(0, (0, count))
    for first, end in spans:
        if (made := cut(module, function, able[first:end])) is not None:
            yield made
