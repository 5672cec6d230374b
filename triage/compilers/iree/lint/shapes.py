"""Lint rules about shapes and element types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from triage.compilers.analysis import LintFinding, Severity
from triage.compilers.iree.devices import is_gpu
from triage.compilers.iree.lint.program import LintProgram
from triage.mlir import Operation, SourcePosition, Value

_COLLAPSE, _EXPAND = "tensor.collapse_shape", "tensor.expand_shape"
_GENERIC, _REDUCTION = "linalg.generic", "reduction"
_VECTOR = re.compile(r"vector<(\d{1,18}(?:x\d{1,18})*)x[a-z]+\w*>")
_ELEMENT = re.compile(r"(?:tensor|vector)<(?:[\d?x]*x)?((?:complex<\w+>)|[a-z]\w*)|^((?:complex<\w+>)|[a-z]\w*)$")
_MAX_ELEMENTS = 2048  # of a vector: 8 KiB of f32
_NEAR = 4  # operations between two reshapes


def undone(program: LintProgram) -> Iterator[LintFinding]:
    """A collapse_shape and an expand_shape that undo each other, with nothing but elementwise operations in between."""
    producers = {value: operation for operation in program.operations for value in operation.results}
    for operation in program.operations:
        first = _undone_by(program, operation, producers) if operation.name in (_COLLAPSE, _EXPAND) else None
        if first is not None:
            text = (
                f"this {operation.name} undoes the {first.name} of line {first.line}; releases differ in what they fuse"
                " across such a pair. Compute on one of the two shapes if the model allows it"
            )
            yield LintFinding("undone-reshape", Severity.ADVICE, text, operation.position)


def _undone_by(program: LintProgram, operation: Operation, producers: Mapping[Value, Operation]) -> Operation | None:
    """Return the opposite reshape that this one undoes, with at most a few elementwise operations in between."""
    value = operation.operands[0]
    for _ in range(_NEAR + 1):
        if value not in producers:
            return None
        source = producers[value]
        if source.name in (_COLLAPSE, _EXPAND) and source.name != operation.name:
            same_type = source.operands[0].type == operation.results[0].type
            return source if same_type and source.attribute("reassociation") == operation.attribute("reassociation") else None
        is_elementwise = source.name.startswith(("arith.", "math.", "linalg.elementwise"))
        if not is_elementwise and (source.name != _GENERIC or _has_reduction(source)):
            return None
        used = [each for each in program.uses(source) if each.type == value.type and each in producers]
        value = next((each for each in used if producers[each].name != "tensor.empty"), value)
    return None


def _has_reduction(operation: Operation) -> bool:
    return _REDUCTION in (operation.attribute("iterator_types") or "")


def dynamic(program: LintProgram) -> Iterator[LintFinding]:
    """An attention, contraction, convolution or padding with an unknown dimension, on a GPU."""
    for operation in program.module.walk() if is_gpu(program.backend) else ():
        is_contraction = operation.name == _GENERIC and _has_reduction(operation) and len(program.uses(operation)) > 2
        if is_contraction or operation.name in program.words.tiled:
            types = [value.type for value in (*operation.operands, *operation.results)]
            # Also of batches and rows: all affect padding and tile sizes.
            if unknown := [type_ for type_ in types if type_.startswith("tensor<") and "?" in type_]:
                text = (
                    f"{operation.name} uses {unknown[0]}, which has an unknown dimension; tile sizes and padding are chosen"
                    " without it. Compile the model with static shapes to see whether that matters"
                )
                yield LintFinding("dynamic-dimension", Severity.ADVICE, text, operation.position)


def large(program: LintProgram) -> Iterator[LintFinding]:
    """A vector of more than 2048 elements in the program."""
    first = {value.type: operation for operation in reversed([*program.module.walk()]) for value in operation.results}
    for type_, operation in first.items():
        matched = _VECTOR.match(type_)
        count = prod(int(size) for size in matched[1].split("x")) if matched else 0
        if count > _MAX_ELEMENTS:
            text = f"{type_} has {count} elements; code generators unroll vectors and reject or spill large ones"
            yield LintFinding("large-vector", Severity.WARNING, text, operation.position)


def missing_types(program: LintProgram) -> Iterator[LintFinding]:
    """An element type that the backend or the chip is known to lack."""
    for missing in program.words.missing_types:
        if program.backend not in missing.backends or (missing.unless and missing.unless not in program.options):
            continue
        if missing.chips and (program.chip is None or not missing.chips.fullmatch(program.chip)):
            continue
        used = _element_types(program, interface=missing.interface)
        for name in sorted(missing.types & used.keys()):
            target = f"{program.backend} {program.chip}" if missing.chips else program.backend
            yield LintFinding("missing-type", Severity.WARNING, f"{name} on {target}: {missing.why}", used[name])


def demoted(program: LintProgram) -> Iterator[LintFinding]:
    """64 bit floats, which are computed in 32 bits unless a flag forbids it."""
    used = _element_types(program, interface=False)
    for name, option in program.words.demoted.items():
        if name in used and option not in program.options:
            text = f"{name} is computed in a narrower type, which changes results; pass `{option}` to keep it"
            yield LintFinding("demoted-type", Severity.ADVICE, text, used[name])


def _element_types(program: LintProgram, *, interface: bool) -> dict[str, SourcePosition | None]:
    """Map each element type to its first use, in arguments and results of functions or also of operations."""
    ports = [port for function in program.functions for port in program.ports.get(function, ())]
    types = [(port.value.type, port.position) for port in ports if interface or port.kind == "argument"]
    if not interface:
        types += [(value.type, operation.position) for operation in program.module.walk() for value in operation.results]
    first: dict[str, SourcePosition | None] = {}
    for text, position in types:
        first.setdefault(text, position)
    found: dict[str, SourcePosition | None] = {}
    for text, position in first.items():
        if matched := _ELEMENT.match(text):
            found.setdefault(matched[1] or matched[2], position)
    return found
