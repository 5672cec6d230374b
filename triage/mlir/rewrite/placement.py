"""Barriers before transfers, and affinities where they are missing. The caller names the operations and attributes."""

from __future__ import annotations

from collections.abc import Collection

from triage.mlir import Module, Operation, Value
from triage.mlir.tree import array_elements, entries, entries_text, function_types

_SIDES = {"arg_attrs": 0, "res_attrs": 1}


def add_barriers(module: Module, barrier: str, transfers: Collection[str]) -> bool:
    """Put a `barrier` operation before the first operand of each transfer that has none.

    Returns:
        Whether anything changed.
    """
    guarded = {value for operation in module.walk() if operation.name == barrier for value in operation.results}
    changed = False
    for block in module.blocks():
        operations: list[Operation] = []
        for operation in block.operations:
            if operation.name in transfers and operation.operands and operation.operands[0] not in guarded:
                value = Value(operation.operands[0].type)
                operations.append(Operation(barrier, [operation.operands[0]], [value]))
                operation.operands[0] = value
                changed = True
            operations.append(operation)
        block.operations = operations
    return changed


def add_affinities(module: Module, attribute: str) -> bool:
    """Copy a function's first affinity to its tensor arguments and results that have none.

    Args:
        module: Changed in place.
        attribute: The argument and result attribute that holds an affinity.

    Returns:
        Whether anything changed.
    """
    changed = False
    for function in module.functions():
        types = function_types(function)
        known = [entries(text[1:-1]) for side in _SIDES for text in array_elements(function.inherent.get(side))]
        first = next((named[attribute] for named in known if attribute in named), None)
        if first is None or types is None:
            continue
        for side, index in _SIDES.items():
            named = [entries(text[1:-1]) for text in array_elements(function.inherent.get(side))] or [{} for _ in types[index]]
            for type_, attributes in zip(types[index], named, strict=True):
                if type_.startswith("tensor<") and attribute not in attributes:
                    attributes[attribute] = first
                    changed = True
            if any(named):
                function.inherent[side] = f"[{', '.join(f'{{{entries_text(attributes)}}}' for attributes in named)}]"
    return changed
