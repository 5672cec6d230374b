"""Lint rules about shapes and element types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from triage.compilers.analysis import LintFinding, Severity
from triage.compilers.iree.devices import is_gpu
from triage.compilers.iree.lint.program import LintProgram, MissingTypes, missing_types
from triage.mlir import Operation, SourcePosition, Value
from triage.mlir.tree import arguments_of, users

_COLLAPSE, _EXPAND = "tensor.collapse_shape", "tensor.expand_shape"
_GENERIC, _REDUCTION = "linalg.generic", "reduction"
_VECTOR = re.compile(r"vector<(\d{1,18}(?:x\d{1,18})*)x[a-z]+\w*>")
_ELEMENT = re.compile(r"(?:tensor|vector)<(?:[\d?x]*x)?((?:complex<\w+>)|[a-z]\w*)|^((?:complex<\w+>)|[a-z]\w*)$")
_MAX_ELEMENTS = 2048  # of a vector: 8 KiB of f32
_MAX_DISTANCE = 4  # operations between a reshape and the attention


def undone(program: LintProgram) -> Iterator[LintFinding]:
    """Report reshapes that are undone, around an attention or with no operation in between."""
    for function in program.functions:
        for block in function.regions[0].blocks:
            reshapes = [operation for operation in block.operations if operation.name in (_COLLAPSE, _EXPAND)]
            if not reshapes:
                continue
            producers = {value: operation for operation in block.operations for value in operation.results}
            consumers = users(block)
            for operation in reshapes:
                first, between = _undone_by(program, operation, producers)
                if first is None:
                    continue
                near = _attention_near(program, operation, first, producers, consumers)
                if near or not between:
                    where = " around an attention" if near else ""
                    text = (
                        f"this {operation.name} undoes the {first.name} of line {first.line}{where}; releases differ in what"
                        " they fuse across such a pair. Compute on one of the two shapes if the model allows it"
                    )
                    yield LintFinding("undone-reshape", Severity.ADVICE, text, operation.position)


def _undone_by(
    program: LintProgram, operation: Operation, producers: Mapping[Value, Operation]
) -> tuple[Operation | None, int]:
    """Return the opposite reshape that this one undoes, and the number of elementwise operations in between."""
    opposite = _EXPAND if operation.name == _COLLAPSE else _COLLAPSE
    value = operation.operands[0]
    for between in range(_MAX_DISTANCE + 1):
        source = producers.get(value)
        if source is None:
            break
        if source.name == opposite:
            same_type = source.operands[0].type == operation.results[0].type
            same = same_type and source.attribute("reassociation") == operation.attribute("reassociation")
            return (source, between) if same else (None, between)
        candidates = [used for used in program.uses(source) if used.type == value.type and used in producers]
        if not _is_elementwise(source) or not candidates:
            break
        value = next((used for used in candidates if producers[used].name != "tensor.empty"), candidates[0])
    return None, 0


def _is_elementwise(operation: Operation) -> bool:
    if operation.name == _GENERIC:
        return _REDUCTION not in (operation.attribute("iterator_types") or "")
    return operation.name.startswith(("arith.", "math.", "linalg.elementwise")) and bool(operation.operands)


def _attention_near(
    program: LintProgram,
    last: Operation,
    first: Operation,
    producers: Mapping[Value, Operation],
    consumers: Mapping[Value, list[Operation]],
) -> bool:
    ahead, behind = [last], [first]
    for _ in range(_MAX_DISTANCE):
        ahead = [user for operation in ahead for value in operation.results for user in consumers.get(value, ())]
        behind = [producers[value] for operation in behind for value in operation.operands if value in producers]
        if any(operation.name in program.words.attention for operation in (*ahead, *behind)):
            return True
    return False


def dynamic(program: LintProgram) -> Iterator[LintFinding]:
    """Report unknown dimensions of tiled operations on a GPU, also of batches and rows: all affect padding and tile sizes."""
    for function in program.functions if is_gpu(program.backend) else ():
        for operation in function.walk():
            if not _is_tiled(program, operation):
                continue
            values = (*operation.operands, *operation.results)
            unknown = [value.type for value in values if value.type.startswith("tensor<") and "?" in value.type]
            if unknown:
                text = (
                    f"{operation.name} uses {unknown[0]}, which has an unknown dimension; tile sizes and padding are chosen"
                    " without it. Compile the model with static shapes to see whether that matters"
                )
                yield LintFinding("dynamic-dimension", Severity.ADVICE, text, operation.position)


def _is_tiled(program: LintProgram, operation: Operation) -> bool:
    if operation.name != _GENERIC:
        return operation.name in program.words.tiled
    is_reduction = _REDUCTION in (operation.attribute("iterator_types") or "")
    return is_reduction and len(program.uses(operation)) > 2  # a contraction


def large(program: LintProgram) -> Iterator[LintFinding]:
    """Report each large vector type once."""
    reported: set[str] = set()
    for operation in program.module.walk():
        for value in operation.results:
            for found in _VECTOR.finditer(value.type) if value.type.startswith("vector<") else ():
                count = prod(int(size) for size in found[1].split("x"))
                if count > _MAX_ELEMENTS and value.type not in reported:
                    reported.add(value.type)
                    text = f"{value.type} has {count} elements; code generators unroll vectors and reject or spill large ones"
                    yield LintFinding("large-vector", Severity.WARNING, text, operation.position)


def missing_element_types(program: LintProgram) -> Iterator[LintFinding]:
    """Report each element type that the backend lacks, at its first use."""
    interface = _element_types(_interface_types(program))
    everywhere = _element_types([*_argument_types(program), *_result_types(program)])
    for missing in missing_types():
        if not _concerns(program, missing):
            continue
        used = interface if missing.interface else everywhere
        for name in sorted(missing.types & used.keys()):
            target = f"{program.backend} {program.chip}" if missing.chips else program.backend
            yield LintFinding("missing-type", Severity.WARNING, f"{name} on {target}: {missing.why}", used[name])


def demoted(program: LintProgram) -> Iterator[LintFinding]:
    """Report each element type that is computed in a narrower one, at its first use."""
    used = _element_types([*_argument_types(program), *_result_types(program)])
    for name, option in program.words.demoted.items():
        if name in used and option not in program.options:
            text = f"{name} is computed in a narrower type, which changes results; pass `{option}` to keep it"
            yield LintFinding("demoted-type", Severity.ADVICE, text, used[name])


def _concerns(program: LintProgram, missing: MissingTypes) -> bool:
    if program.backend not in missing.backends or (missing.unless and missing.unless not in program.options):
        return False
    return missing.chips is None or (program.chip is not None and missing.chips.fullmatch(program.chip) is not None)


TypesWithPlaces = list[tuple[str, SourcePosition | None]]


def _argument_types(program: LintProgram) -> TypesWithPlaces:
    return [
        (value.type, value.position or function.position) for function in program.functions for value in arguments_of(function)
    ]


def _result_types(program: LintProgram) -> TypesWithPlaces:
    return [(value.type, operation.position) for operation in program.module.walk() for value in operation.results]


def _interface_types(program: LintProgram) -> TypesWithPlaces:
    ends = [end for function in program.functions for end in function.regions[0].blocks[-1].operations[-1:]]
    return [*_argument_types(program), *((value.type, end.position) for end in ends for value in end.operands)]


def _element_types(types: TypesWithPlaces) -> dict[str, SourcePosition | None]:
    """Map each element type to its first use."""
    first: dict[str, SourcePosition | None] = {}
    for text, position in types:
        first.setdefault(text, position)
    found: dict[str, SourcePosition | None] = {}
    for text, position in first.items():
        if matched := _ELEMENT.match(text):
            found.setdefault(matched[1] or matched[2], position)
    return found
