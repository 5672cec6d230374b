"""Passes that simplify regions: one iteration of loops, one side of branches, fewer operations and inputs of bodies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triage.mlir import Block, Operation, Value
from triage.mlir.tree import array_elements
from triage.reduce.draft import Draft, InterestingnessTest, minimise, repeatedly
from triage.reduce.frontends.mlir.document import (
    Values,
    copy_module,
    module_of,
    replace_operands,
    with_module,
    without_results,
)

_OPENED = ("scf.for", "scf.if", "scf.execute_region", "flow.dispatch.region")


def unroll_regions(draft: Draft, test: InterestingnessTest) -> Draft:
    """Replace loops by one iteration and branches by one side; all at once, then one by one."""
    return repeatedly(draft, test, _unrolled)


def _unrolled(draft: Draft) -> Iterator[Draft]:
    count = sum(1 for operation in module_of(draft).walk() if _can_open(operation))
    if count > 1:
        yield _opened(draft, range(count))
    yield from (_opened(draft, [index]) for index in range(count))


def _can_open(operation: Operation) -> bool:
    return operation.name in _OPENED and all(len(region.blocks) <= 1 for region in operation.regions)


def _opened(draft: Draft, chosen: Sequence[int]) -> Draft:
    """Replace the chosen regions, counted in order, by their operations."""
    module, _ = copy_module(module_of(draft))
    replaced: Values = {}
    able = [operation for operation in module.walk() if _can_open(operation)]
    opened = {able[index] for index in chosen}
    for block in _inner_blocks(module.root):
        operations: list[Operation] = []
        for operation in block.operations:
            operations += _inside(operation, replaced) if operation in opened else [operation]
        block.operations = operations
    replace_operands(module, replaced)
    return with_module(draft, module)


def _inner_blocks(operation: Operation) -> Iterator[Block]:
    """All blocks, inner ones before outer ones, so that operations moved outwards have been visited."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                yield from _inner_blocks(inner)
            yield block


def _inside(operation: Operation, replaced: Values) -> list[Operation]:
    block = operation.regions[0].blocks[0]
    if operation.name == "scf.for":
        lower, _, _, *carried = operation.operands
        replaced |= dict(zip(block.arguments, [lower, *carried], strict=False))
    replaced |= dict(zip(operation.results, block.operations[-1].operands, strict=False))
    return block.operations[:-1]


def thin_bodies(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop operations inside of operations such as linalg.generic, and the inputs that the body then does not read.

    An earlier value of the same type replaces each result: the first operand that fits, in a second run the last one.
    """
    for last in (False, True):
        draft = _thin(draft, test, last=last)
    smaller = _without_unread_inputs(draft)
    return (smaller and test.first([smaller])) or draft


def _thin(base: Draft, test: InterestingnessTest, *, last: bool) -> Draft:
    replacements = dict(_inner_results(base, last=last))

    def build(kept: Sequence[Operation]) -> Draft | None:
        dropped = replacements.keys() - set(kept)
        if not dropped:
            return None
        module = without_results(module_of(base), {operation.results[0]: replacements[operation] for operation in dropped})
        _drop_unused(module.root, depth=0)
        return with_module(base, module)

    return minimise(
        base, list(replacements), build, test, kind_of=lambda operation: (operation.name, operation.results[0].type)
    )


def _inner_results(draft: Draft, *, last: bool) -> Iterator[tuple[Operation, Value]]:
    """The operations below a function's own block that have a value to replace their result."""
    for block, index in _positions(module_of(draft).root):
        operation = block.operations[index]
        if index < len(block.operations) - 1 and len(operation.results) == 1:
            earlier = [value for other in reversed(block.operations[:index]) for value in other.results]
            operands = reversed(operation.operands) if last else operation.operands
            able = (*operands, *reversed(block.arguments), *earlier)
            match = next((value for value in able if value.type == operation.results[0].type), None)
            if match is not None:
                yield operation, match


def _positions(operation: Operation, depth: int = 0) -> Iterator[tuple[Block, int]]:
    for region in operation.regions:
        for block in region.blocks:
            for index, inner in enumerate(block.operations):
                if depth >= 2:
                    yield block, index
                yield from _positions(inner, depth + 1)


def _drop_unused(operation: Operation, depth: int) -> None:
    """Drop operations in inner bodies whose results are unused."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                _drop_unused(inner, depth + 1)
            if depth >= 2:
                used: set[Value] = set()
                kept = []
                for inner in reversed(block.operations):
                    if not inner.results or any(value in used for value in inner.results):
                        kept.append(inner)
                        used.update(value for nested in inner.walk() for value in nested.operands)
                block.operations = kept[::-1]


def _without_unread_inputs(draft: Draft) -> Draft | None:
    """Drop the inputs of linalg.generic that its body does not read; None when all are read."""
    module, _ = copy_module(module_of(draft))
    changed = False
    for operation in module.walk():
        maps, sizes = operation.attribute("indexing_maps"), operation.attribute("operandSegmentSizes")
        if operation.name != "linalg.generic" or maps is None or sizes is None:
            continue
        inputs, outputs = (int(text) for text in sizes.partition(":")[2].rstrip(">").split(","))
        block = operation.regions[0].blocks[0]
        read = {value for inner in operation.regions[0].walk() for value in inner.operands}
        kept = [index for index, value in enumerate(block.arguments) if index >= inputs or value in read]
        if len(kept) == len(block.arguments):
            continue
        changed = True
        texts = array_elements(maps)
        operation.operands = [operation.operands[index] for index in kept]
        block.arguments = [block.arguments[index] for index in kept]
        operation.properties["indexing_maps"] = f"[{', '.join(texts[index] for index in kept)}]"
        operation.properties["operandSegmentSizes"] = f"array<i32: {len(kept) - outputs}, {outputs}>"
    return with_module(draft, module) if changed else None
