"""Passes that rewrite a module: folding, shapes, attributes, constants and floating-point types."""

from __future__ import annotations

import re
from collections.abc import Callable

from triage.mlir import Module, Operation, UnparsableError, parse_module, print_module
from triage.mlir.rewrite import DYNAMIC, dimensions, fix_arguments, float_types, widen_floats
from triage.reduce.engine import minimise
from triage.reduce.frontends.mlir.document import copy_module, document_of, keep_arguments, module_of, with_module
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate

Attribute = tuple[int, str]  # the position of its operation, and its name
_FOLD = ("--canonicalize", "--cse", "--mlir-print-op-generic")
_STATIC = 64  # replaces an unknown dimension; later passes make it smaller
_NEEDED = frozenset(("function_type", "sym_name", "operandSegmentSizes", "resultSegmentSizes", "value", "callee"))
_LONG = re.compile(r"(dense(?:_resource)?)<(?:\"[^\"]*\"|\[.*\]|[\w.$-]+)>(?= : (?:tensor|vector)<)", re.DOTALL)
_ELEMENT = re.compile(r"[x<]([a-z]\w*)>\s*\Z")
_LONGEST = 40  # characters of a constant that stays as it is


def fold(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Let the compiler canonicalize the program, where that makes it smaller."""
    folded = _folded(candidate, module_of(candidate))
    return (folded and folded.document.size < candidate.document.size and test.first([folded])) or candidate


def make_static(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Replace the unknown dimensions of arguments by a number and let the compiler propagate it."""
    module, _ = copy_module(module_of(candidate))
    static = _folded(candidate, module) if fix_arguments(module, _STATIC, {}) else None
    fewer = static and _unknown_dimensions(static) < _unknown_dimensions(candidate)
    return (static and fewer and test.first([static])) or candidate


def _folded(candidate: Candidate, module: Module) -> Candidate | None:
    text = document_of(candidate).checker.reader.transformed(print_module(module), _FOLD)
    folded = parse_or_none(text) if text is not None else None
    if folded is not None:
        keep_arguments(folded, module)
    return with_module(candidate, folded) if folded is not None else None


def parse_or_none(text: str) -> Module | None:
    """Return the module, or None when the text does not parse."""
    try:
        return parse_module(text)
    except UnparsableError:
        return None


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
    """Return the candidate with other texts for some attributes, None to drop them, and without unused resources."""
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
