"""Passes that rewrite a module: folding, shapes, attributes, constants, loops, branches and the bodies of operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from triage.execution.mlir_tools import Reader
from triage.mlir import Block, Module, Operation, UnparsableError, Value, parse_module
from triage.mlir.rewrite import DYNAMIC, dimensions, fix_arguments, float_types, widen_floats
from triage.mlir.tree import array_elements
from triage.reduce.engine import minimise, repeatedly
from triage.reduce.frontends.mlir.document import (
    MlirDocument,
    Values,
    body_of,
    copy_module,
    cut,
    module_of,
    pieces,
    replace_operands,
    with_module,
    without_results,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate

Attribute = tuple[int, str]  # the position of its operation, and its name
_FOLD = ("--canonicalize", "--cse", "--mlir-print-op-generic")
_UNIT = ("--linalg-fold-unit-extent-dims", *_FOLD)
_STATIC = 64  # replaces an unknown dimension; later passes make it smaller
_NEEDED = frozenset(("function_type", "sym_name", "operandSegmentSizes", "resultSegmentSizes", "value", "callee"))
_LONG = re.compile(r"(dense(?:_resource)?)<(?:\"[^\"]*\"|\[.*\]|[\w.$-]+)>(?= : (?:tensor|vector)<)", re.DOTALL)
_ELEMENT = re.compile(r"[x<]([a-z]\w*)>\s*\Z")
_LONGEST = 40  # characters of a constant that stays as it is
_OPENED = ("scf.for", "scf.if", "scf.execute_region", "flow.dispatch.region")


class ToolPasses:
    """Passes that run the toolchain's `opt` program."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def fold(self, candidate: Candidate, test: InterestingnessTest) -> Candidate:
        """Let the compiler canonicalize the program, where that makes it smaller."""
        folded = self._transformed(candidate, module_of(candidate), _FOLD)
        return (folded and folded.document.size < candidate.document.size and test.first([folded])) or candidate

    def make_static(self, candidate: Candidate, test: InterestingnessTest) -> Candidate:
        """Replace the unknown dimensions of arguments by a number and let the compiler propagate it."""
        module, _ = copy_module(module_of(candidate))
        static = self._transformed(candidate, module, _FOLD) if fix_arguments(module, _STATIC) else None
        fewer = static and _unknown_dimensions(static) < _unknown_dimensions(candidate)
        return (static and fewer and test.first([static])) or candidate

    def fewer_ranks(self, candidate: Candidate, test: InterestingnessTest) -> Candidate:
        """Drop dimensions of size 1, where the compiler can do so without adding operations."""
        folded = self._transformed(candidate, module_of(candidate), _UNIT)
        module = _without_edges(module_of(folded)) if folded else None
        if module is None:
            return candidate
        smaller = with_module(candidate, module)
        fewer = _ranks(smaller) < _ranks(candidate) and smaller.document.size <= candidate.document.size
        return (fewer and test.first([smaller])) or candidate

    def _transformed(self, candidate: Candidate, module: Module, options: tuple[str, ...]) -> Candidate | None:
        text = self._reader.transformed(MlirDocument(module).text, options)
        transformed = parse_or_none(text) if text is not None else None
        if transformed is None:
            return None
        document = MlirDocument(transformed)
        document.name_values(module)
        return Candidate(document, candidate.case)


def parse_or_none(text: str) -> Module | None:
    """Return the module; None when the text does not parse."""
    try:
        return parse_module(text)
    except UnparsableError:
        return None


def _without_edges(module: Module) -> Module | None:
    """The module's only function without the reshapes of its arguments and results; None for several functions."""
    functions = [(function, block) for function in module.functions() if (block := body_of(function))]
    if len(functions) != 1:
        return None
    [(function, block)] = functions
    expanded = {operation.results[0]: operation for operation in block.operations if operation.name == "tensor.expand_shape"}
    results = block.operations[-1].operands
    returned = [expanded[value].operands[0] if value in expanded else value for value in results]
    edges = {expanded[value] for value in results if value in expanded}
    edges |= {
        operation
        for operation in block.operations
        if operation.name == "tensor.collapse_shape" and operation.operands[0] in block.arguments
    }
    return cut(module, function, [operation for operation in pieces(function) if operation not in edges], returned)


def _ranks(candidate: Candidate) -> int:
    """The number of dimensions of all values."""
    return sum(len(dimensions(value.type) or []) for value in module_of(candidate).values())


def _unknown_dimensions(candidate: Candidate) -> int:
    results = (value for operation in module_of(candidate).walk() for value in operation.results)
    return sum((dimensions(value.type) or []).count(DYNAMIC) for value in results)


def drop_attributes(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop attributes. A kind of attribute that the program is invalid without costs no compile."""
    kinds = {
        (index, name): (operation.name, name)
        for index, operation in enumerate(_operations(module_of(candidate)))
        for name in (*operation.attributes, *operation.properties)
        if name not in _NEEDED
    }

    def without(dropped: set[Attribute]) -> Candidate:
        return _changed(candidate, dropped, lambda _: None)

    # One attribute of each kind is checked: operations of a name need the same attributes.
    first = {kind: attribute for attribute, kind in reversed(kinds.items())}
    valid = {kind: test.is_valid(without({attribute})) for kind, attribute in first.items()}
    able = [attribute for attribute, kind in kinds.items() if valid[kind]]
    return minimise(candidate, able, lambda kept: without(set(able) - set(kept)), test, kind_of=kinds.__getitem__)


def shorten_constants(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Replace long constants by ones with a single value."""
    long = [
        (index, name)
        for index, operation in enumerate(_operations(module_of(candidate)))
        for name, text in (*operation.attributes.items(), *operation.properties.items())
        if with_one_value(text) != text
    ]
    return minimise(candidate, long, lambda kept: _changed(candidate, set(long) - set(kept), with_one_value), test)


def _operations(module: Module) -> list[Operation]:
    return [module.root, *module.walk()]


def _changed(candidate: Candidate, attributes: set[Attribute], new_text: Callable[[str], str | None]) -> Candidate:
    """The candidate with other texts for some attributes, None to drop them, and without unused resources."""
    module, _ = copy_module(module_of(candidate))
    operations = _operations(module)
    for index, name in attributes:
        for holder in (operations[index].attributes, operations[index].properties):
            if name in holder and (text := new_text(holder[name])) is not None:
                holder[name] = text
            else:
                holder.pop(name, None)
    if not any("dense_resource<" in text for operation in operations for text in operation.texts()):
        module.trailer = ""
    return with_module(candidate, module)


def with_one_value(text: str) -> str:
    """Return a constant's text with one value instead of a long list, or the text itself when it is short."""
    found = _LONG.match(text)
    if found is None or (found[1] == "dense" and len(found.group()) <= _LONGEST):
        return text
    element = _ELEMENT.search(text[found.end() :])
    if element is None:
        return text
    value = {"i1": "true", "index": "1"}.get(element[1], "1" if element[1].startswith(("i", "ui", "si")) else "1.000000e+00")
    return f"dense<{value}>{text[found.end() :]}"


def widen_elements(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Replace all other floating-point types by f32."""
    module, _ = copy_module(module_of(candidate))
    if not widen_floats(module, float_types(module)):
        return candidate
    widened = with_module(candidate, module)
    return (test.is_valid(widened) and test.first([widened])) or candidate


@repeatedly
def unroll_regions(candidate: Candidate) -> Iterator[Candidate]:
    """Replace loops by one iteration and branches by one side; all at once, then one by one."""
    count = sum(1 for operation in module_of(candidate).walk() if _can_open(operation))
    if count > 1:
        yield _opened(candidate, range(count))
    yield from (_opened(candidate, [index]) for index in range(count))


def _can_open(operation: Operation) -> bool:
    return operation.name in _OPENED and all(len(region.blocks) <= 1 for region in operation.regions)


def _opened(candidate: Candidate, chosen: Sequence[int]) -> Candidate:
    """Replace the chosen regions, counted in order, by their operations."""
    module, _ = copy_module(module_of(candidate))
    replaced: Values = {}
    able = [operation for operation in module.walk() if _can_open(operation)]
    opened = {able[index] for index in chosen}
    for block in _inner_blocks(module.root):
        operations: list[Operation] = []
        for operation in block.operations:
            operations += _inside(operation, replaced) if operation in opened else [operation]
        block.operations = operations
    replace_operands(module, replaced)
    return with_module(candidate, module)


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


def thin_bodies(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop operations inside of operations such as linalg.generic, and the inputs that the body then does not read.

    An earlier value of the same type replaces each result: the first operand that fits, in a second run the last one.
    """
    for last in (False, True):
        candidate = _thin(candidate, test, last=last)
    smaller = _without_unread_inputs(candidate)
    return (smaller and test.first([smaller])) or candidate


def _thin(base: Candidate, test: InterestingnessTest, *, last: bool) -> Candidate:
    replacements = dict(_inner_results(base, last=last))

    def build(kept: Sequence[Operation]) -> Candidate | None:
        dropped = replacements.keys() - set(kept)
        if not dropped:
            return None
        module = without_results(module_of(base), {operation.results[0]: replacements[operation] for operation in dropped})
        _drop_unused(module.root, depth=0)
        return with_module(base, module)

    return minimise(
        base, list(replacements), build, test, kind_of=lambda operation: (operation.name, operation.results[0].type)
    )


def _inner_results(candidate: Candidate, *, last: bool) -> Iterator[tuple[Operation, Value]]:
    """The operations below a function's own block that have a value to replace their result."""
    for block, index in _positions(module_of(candidate).root):
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


def _without_unread_inputs(candidate: Candidate) -> Candidate | None:
    """Drop the inputs of linalg.generic that its body does not read; None when all are read."""
    module, _ = copy_module(module_of(candidate))
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
    return with_module(candidate, module) if changed else None
