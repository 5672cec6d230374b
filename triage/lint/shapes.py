"""Shapes: reshapes that undo each other around attention, sizes unknown where tiles are chosen, vectors too large."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from triage.lint.finding import LintFinding, LintRule, Severity
from triage.lint.program import Program
from triage.mlir import Operation, Value
from triage.mlir.tree import users

_COLLAPSE, _EXPAND = "tensor.collapse_shape", "tensor.expand_shape"
_VECTOR = re.compile(r"vector<(\d+(?:x\d+)*)x[a-z]+\w*>")
_LARGEST = 2048  # elements: 8 KiB of f32
_NEAR = 4  # operations between a reshape and the attention
_GENERIC, _REDUCTION = "linalg.generic", "reduction"


def undone(program: Program) -> Iterator[LintFinding]:
    """A reshape, elementwise operations at most, and the reshape back: in front of an attention, or with nothing between."""
    for function in program.functions:
        for block in function.regions[0].blocks:
            if not any(one.name in (_COLLAPSE, _EXPAND) for one in block.operations):
                continue
            maker = {value: one for one in block.operations for value in one.results}
            needed = users(block)
            for one in block.operations:
                if one.name not in (_COLLAPSE, _EXPAND):
                    continue
                first, between = _undone_by(program, one, maker)
                if first is None:
                    continue
                near = _attention_near(program, one, first, maker, needed)
                if near or not between:
                    where = " around an attention" if near else ""
                    text = (
                        f"this {one.name} undoes the {first.name} of line {first.line}{where}; releases differ in what they"
                        " fuse across such a pair. Compute on one of the two shapes where the model allows it"
                    )
                    yield LintFinding("undone-reshape", Severity.ADVICE, text, one.place)


def _undone_by(program: Program, one: Operation, maker: dict[Value, Operation]) -> tuple[Operation | None, int]:
    """The opposite reshape that this one takes back, and how many elementwise operations lie between."""
    opposite = _EXPAND if one.name == _COLLAPSE else _COLLAPSE
    value = one.operands[0]
    for between in range(_NEAR + 1):
        source = maker.get(value)
        if source is None:
            break
        if source.name == opposite:
            same = source.operands[0].type == one.results[0].type and source.attribute("reassociation") == one.attribute(
                "reassociation"
            )
            return (source, between) if same else (None, between)
        same_shape = [operand for operand in program.uses(source) if operand.type == value.type and operand in maker]
        if not _elementwise(source) or not same_shape:
            break
        value = next((one for one in same_shape if maker[one].name != "tensor.empty"), same_shape[0])
    return None, 0


def _elementwise(one: Operation) -> bool:
    if one.name == _GENERIC:
        return _REDUCTION not in (one.attribute("iterator_types") or "")
    return one.name.startswith(("arith.", "math.", "linalg.elementwise")) and bool(one.operands)


def _attention_near(
    program: Program, one: Operation, first: Operation, maker: dict[Value, Operation], needed: dict[Value, list[Operation]]
) -> bool:
    attention = program.placement.words.attention
    ahead, behind = [one], [first]
    for _ in range(_NEAR):
        ahead = [user for each in ahead for value in each.results for user in needed.get(value, ())]
        behind = [maker[value] for each in behind for value in each.operands if value in maker]
        if any(each.name in attention for each in (*ahead, *behind)):
            return True
    return False


def dynamic(program: Program) -> Iterator[LintFinding]:
    """On a GPU. Sizes of batches and rows too, since padding and tile sizes depend on them all."""
    if not program.placement.gpu(program.backend):
        return
    for function in program.functions:
        for one in function.walk():
            if not _tiled(program, one):
                continue
            unknown = [
                value.type for value in (*one.operands, *one.results) if value.type.startswith("tensor<") and "?" in value.type
            ]
            if unknown:
                text = (
                    f"{one.name} reads or makes {unknown[0]}, of which a size is unknown: tile sizes and padding are chosen"
                    " without it. A static twin of the model tells whether that matters"
                )
                yield LintFinding("dynamic-dimension", Severity.ADVICE, text, one.place)


def _tiled(program: Program, one: Operation) -> bool:
    if one.name != _GENERIC:
        return one.name in program.placement.words.tiled
    return (one.attribute("iterator_types") or "").count(_REDUCTION) > 0 and len(program.uses(one)) > 2  # a contraction


def large(program: Program) -> Iterator[LintFinding]:
    """Each type once."""
    seen: set[str] = set()
    for one in program.module.walk():
        for value in one.results:
            for found in _VECTOR.finditer(value.type) if value.type.startswith("vector<") else ():
                count = prod(int(size) for size in found[1].split("x"))
                if count > _LARGEST and value.type not in seen:
                    seen.add(value.type)
                    text = f"{value.type} has {count} elements; code generators unroll vectors, and refuse or spill large ones"
                    yield LintFinding("large-vector", Severity.WARNING, text, one.place)


RULES = (
    LintRule(
        "undone-reshape",
        Severity.ADVICE,
        "A collapse_shape and an expand_shape that undo each other, around an attention or with nothing between.",
        undone,
    ),
    LintRule(
        "dynamic-dimension",
        Severity.ADVICE,
        "An attention, contraction, convolution or padding with a size unknown, on a GPU.",
        dynamic,
    ),
    LintRule("large-vector", Severity.WARNING, "A vector of more than 2048 elements in the program itself.", large),
)
