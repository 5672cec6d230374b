"""Regions made simpler: loops to one iteration, branches to one side, bodies to fewer operations and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triage.mlir import Block, Operation, Value
from triage.mlir.tree import split
from triage.reduce.draft import Draft
from triage.reduce.frontends.mlir.document import copy_module, module_of, with_module
from triage.reduce.search import InterestingnessTest, minimise


def unroll_regions(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Put one iteration in the place of a loop, one side in the place of a branch; all at once, then one by one."""
    while True:
        count = sum(1 for one in module_of(draft).walk() if _openable(one))
        every = _opened(draft, range(count)) if count > 1 else None
        drafts = (one for one in [every, *(_opened(draft, [index]) for index in range(count))] if one)
        found = hunt.first(drafts) if count else None
        if found is None:
            return draft
        draft = found


def _openable(operation: Operation) -> bool:
    return operation.name in ("scf.for", "scf.if", "scf.execute_region", "flow.dispatch.region") and all(
        len(region.blocks) <= 1 for region in operation.regions
    )


def _opened(draft: Draft, chosen: Sequence[int]) -> Draft:
    """The draft with the chosen of its openable operations, counted in order, replaced by what is inside."""
    module, _ = copy_module(module_of(draft))
    gone: dict[Value, Value] = {}
    targets = {one for index, one in enumerate(one for one in module.walk() if _openable(one)) if index in set(chosen)}
    for block in _blocks(module.root):
        made: list[Operation] = []
        for one in block.operations:
            made += _inside(one, gone) if one in targets else [one]
        block.operations = made
    for one in module.walk():
        one.operands = [_final(value, gone) for value in one.operands]
    return with_module(draft, module)


def _inside(operation: Operation, gone: dict[Value, Value]) -> list[Operation]:
    block = operation.regions[0].blocks[0]
    if operation.name == "scf.for":
        lower, _, _, *carried = operation.operands
        gone |= dict(zip(block.arguments, [lower, *carried], strict=False))
    end = block.operations[-1]
    gone |= dict(zip(operation.results, end.operands, strict=False))
    return block.operations[:-1]


def _blocks(operation: Operation) -> Iterator[Block]:
    """Inner blocks before outer ones, so that what is moved out has been looked through."""
    for region in operation.regions:
        for block in region.blocks:
            for one in list(block.operations):
                yield from _blocks(one)
            yield block


def _final(value: Value, gone: dict[Value, Value]) -> Value:
    for _ in range(len(gone) + 1):
        if value not in gone:
            return value
        value = gone[value]
    return value


def thin_bodies(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop operations inside of operations such as linalg.generic: another value of the same type, defined before, takes
    each one's place, an operand if one fits, the first one and then the last. Then inputs go that the body no longer reads.
    """
    for last in (False, True):
        draft = _thin(draft, hunt, last=last)
    smaller = _without_idle_inputs(draft)
    return (smaller and hunt.first([smaller])) or draft


def _thin(base: Draft, hunt: InterestingnessTest, *, last: bool) -> Draft:
    places = {index: (one, by) for index, one, by in _thinnable(base, last=last)}

    def build(kept: Sequence[int]) -> Draft | None:
        gone = places.keys() - set(kept)
        return _thinned(base, {places[index][0].results[0]: places[index][1] for index in gone}) if gone else None

    def alike(index: int) -> tuple[str, str]:
        one, _ = places[index]
        return one.name, one.results[0].type

    _, found = minimise(list(places), build, hunt, alike=alike)
    return found or base


def _thinnable(draft: Draft, *, last: bool) -> Iterator[tuple[int, Operation, Value]]:
    """Operations deeper than a function's own block, counted in the order of the module, with what can stand in."""
    for index, (block, position, depth) in enumerate(_places(module_of(draft).root)):
        one = block.operations[position]
        if depth >= 2 and position < len(block.operations) - 1 and len(one.results) == 1:
            before = [value for other in reversed(block.operations[:position]) for value in other.results]
            operands = reversed(one.operands) if last else one.operands
            able = [*operands, *reversed(block.arguments), *before]
            match = next((value for value in able if value.type == one.results[0].type), None)
            if match is not None:
                yield index, one, match


def _places(operation: Operation, depth: int = 0) -> Iterator[tuple[Block, int, int]]:
    for region in operation.regions:
        for block in region.blocks:
            for position, one in enumerate(block.operations):
                yield block, position, depth
                yield from _places(one, depth + 1)


def _thinned(draft: Draft, gone: dict[Value, Value]) -> Draft:
    """The draft without the operations that make the values, which others take the place of."""
    module, values = copy_module(module_of(draft))
    removed = {values[value]: values.get(by, by) for value, by in gone.items()}
    for block in list(_blocks(module.root)):
        block.operations = [one for one in block.operations if not (one.results and one.results[0] in removed)]
    for one in module.walk():
        one.operands = [_final(value, removed) for value in one.operands]
    _sweep(module.root, depth=0)
    return with_module(draft, module)


def _sweep(operation: Operation, depth: int) -> None:
    """Drop operations in inner bodies whose results nobody uses any more."""
    for region in operation.regions:
        for block in region.blocks:
            for one in block.operations:
                _sweep(one, depth + 1)
            if depth >= 2:
                used: set[Value] = set()
                kept = []
                for one in reversed(block.operations):
                    if not one.results or any(value in used for value in one.results):
                        kept.append(one)
                        for inner in one.walk():
                            used.update(inner.operands)
                block.operations = kept[::-1]


def _without_idle_inputs(draft: Draft) -> Draft | None:
    """linalg.generic without the inputs that its body does not read; None where all are read."""
    module, _ = copy_module(module_of(draft))
    changed = False
    for one in module.walk():
        maps, sizes = one.attribute("indexing_maps"), one.attribute("operandSegmentSizes")
        if one.name != "linalg.generic" or maps is None or sizes is None:
            continue
        inputs, outputs = (int(text) for text in sizes.partition(":")[2].rstrip(">").split(","))
        block = one.regions[0].blocks[0]
        read = {value for inner in one.regions[0].walk() for value in inner.operands}
        idle = [index for index in range(inputs) if block.arguments[index] not in read]
        if not idle:
            continue
        changed = True
        keep = [index for index in range(len(one.operands)) if index not in idle]
        texts = split(maps[1:-1])
        one.operands = [one.operands[index] for index in keep]
        block.arguments = [block.arguments[index] for index in keep]
        one.properties["indexing_maps"] = f"[{', '.join(texts[index] for index in keep)}]"
        one.properties["operandSegmentSizes"] = f"array<i32: {inputs - len(idle)}, {outputs}>"
    return with_module(draft, module) if changed else None
