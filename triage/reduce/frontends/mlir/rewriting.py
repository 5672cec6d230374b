"""Passes that rewrite a module in place: the toolchain's own folding, static shapes, fewer ranks, attributes, constants."""

from __future__ import annotations

import re
from collections.abc import Callable

from triage.execution.mlir_tools import Reader
from triage.mlir import Module, Operation, UnparsableError, parse_module
from triage.mlir.rewrite import DYNAMIC, dimensions, fix_arguments, float_types, widen_floats
from triage.reduce.draft import Draft, InterestingnessTest, minimise
from triage.reduce.frontends.mlir.document import (
    MlirDocument,
    body_of,
    copy_module,
    cut,
    module_of,
    pieces,
    with_module,
)

Attribute = tuple[int, str]  # the position of its operation, and its name
_FOLD = ("--canonicalize", "--cse", "--mlir-print-op-generic")
_UNIT = ("--linalg-fold-unit-extent-dims", *_FOLD)
_STATIC = 64  # replaces an unknown dimension; later passes make it smaller
_NEEDED = frozenset(("function_type", "sym_name", "operandSegmentSizes", "resultSegmentSizes", "value", "callee"))
_LONG = re.compile(r"(dense(?:_resource)?)<(?:\"[^\"]*\"|\[.*\]|[\w.$-]+)>(?= : (?:tensor|vector)<)", re.DOTALL)
_ELEMENT = re.compile(r"[x<]([a-z]\w*)>\s*\Z")
_LONGEST = 40  # characters of a constant that stays as it is


class ToolPasses:
    """Passes that run the toolchain's `opt` program."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def fold(self, draft: Draft, test: InterestingnessTest) -> Draft:
        """Let the compiler canonicalize the program, where that makes it smaller."""
        folded = self._transformed(draft, module_of(draft), _FOLD)
        return (folded and folded.document.size < draft.document.size and test.first([folded])) or draft

    def make_static(self, draft: Draft, test: InterestingnessTest) -> Draft:
        """Replace the unknown dimensions of arguments by a number and let the compiler propagate it."""
        module, _ = copy_module(module_of(draft))
        static = self._transformed(draft, module, _FOLD) if fix_arguments(module, _STATIC) else None
        fewer = static and _unknown_dimensions(static) < _unknown_dimensions(draft)
        return (static and fewer and test.first([static])) or draft

    def fewer_ranks(self, draft: Draft, test: InterestingnessTest) -> Draft:
        """Drop dimensions of size 1, where the compiler can do so without adding operations."""
        folded = self._transformed(draft, module_of(draft), _UNIT)
        module = _without_edges(module_of(folded)) if folded else None
        if module is None:
            return draft
        smaller = with_module(draft, module)
        fewer = _ranks(smaller) < _ranks(draft) and smaller.document.size <= draft.document.size
        return (fewer and test.first([smaller])) or draft

    def _transformed(self, draft: Draft, module: Module, options: tuple[str, ...]) -> Draft | None:
        text = self._reader.transformed(MlirDocument(module).text, options)
        transformed = parse_or_none(text) if text is not None else None
        return with_module(draft, transformed) if transformed else None


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


def _ranks(draft: Draft) -> int:
    """The number of dimensions of all values."""
    return sum(len(dimensions(value.type) or []) for value in module_of(draft).values())


def _unknown_dimensions(draft: Draft) -> int:
    results = (value for operation in module_of(draft).walk() for value in operation.results)
    return sum((dimensions(value.type) or []).count(DYNAMIC) for value in results)


def drop_attributes(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop attributes. A kind of attribute that the program is invalid without costs no compile."""
    kinds = {
        (index, name): (operation.name, name)
        for index, operation in enumerate(_operations(module_of(draft)))
        for name in (*operation.attributes, *operation.properties)
        if name not in _NEEDED
    }

    def without(dropped: set[Attribute]) -> Draft:
        return _changed(draft, dropped, lambda _: None)

    # One attribute of each kind is checked: operations of a name need the same attributes.
    first = {kind: attribute for attribute, kind in reversed(kinds.items())}
    valid = {kind: test.is_valid(without({attribute})) for kind, attribute in first.items()}
    able = [attribute for attribute, kind in kinds.items() if valid[kind]]
    return minimise(draft, able, lambda kept: without(set(able) - set(kept)), test, kind_of=kinds.__getitem__)


def shorten_constants(draft: Draft, test: InterestingnessTest) -> Draft:
    """Replace long constants by ones with a single value."""
    long = [
        (index, name)
        for index, operation in enumerate(_operations(module_of(draft)))
        for name, text in (*operation.attributes.items(), *operation.properties.items())
        if with_one_value(text) != text
    ]
    return minimise(draft, long, lambda kept: _changed(draft, set(long) - set(kept), with_one_value), test)


def _operations(module: Module) -> list[Operation]:
    return [module.root, *module.walk()]


def _changed(draft: Draft, attributes: set[Attribute], new_text: Callable[[str], str | None]) -> Draft:
    """The draft with other texts for some attributes, None to drop them, and without unused resources."""
    module, _ = copy_module(module_of(draft))
    operations = _operations(module)
    for index, name in attributes:
        for holder in (operations[index].attributes, operations[index].properties):
            if name in holder and (text := new_text(holder[name])) is not None:
                holder[name] = text
            else:
                holder.pop(name, None)
    if not any("dense_resource<" in text for operation in operations for text in operation.texts()):
        module.trailer = ""
    return with_module(draft, module)


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


def widen_elements(draft: Draft, test: InterestingnessTest) -> Draft:
    """Replace all other floating-point types by f32."""
    module, _ = copy_module(module_of(draft))
    if not widen_floats(module, float_types(module)):
        return draft
    widened = with_module(draft, module)
    return (test.is_valid(widened) and test.first([widened])) or draft
