"""How values go through structured control flow."""

from __future__ import annotations

from collections.abc import Iterator

from triage.mlir import Operation, Value

_FOR, _WHILE, _IF = "scf.for", "scf.while", "scf.if"
_BOUNDS = 3  # lower, upper, step stand before what a loop carries

Pair = tuple[Value, Value]


def entering(operation: Operation, region: int) -> Iterator[Pair]:
    """What becomes of which argument of a region, in the first round of a loop. A region must be asked for after those
    before it were walked.
    """
    blocks = operation.regions[region].blocks
    if not blocks:
        return
    inside = blocks[0].arguments
    if operation.name == _FOR:
        yield from zip(operation.operands[_BOUNDS:], inside[1:], strict=False)
    elif operation.name == _WHILE:
        given = operation.operands if region == 0 else _passed_on(operation)
        yield from zip(given, inside, strict=False)


def leaving(operation: Operation) -> Iterator[Pair]:
    """What becomes of which result: of a branch what each side gives, of a loop what it began with and what it ends with."""
    if operation.name == _FOR:
        yield from zip(operation.operands[_BOUNDS:], operation.results, strict=False)
        yield from zip(_yielded(operation, 0), operation.results, strict=False)
    elif operation.name == _WHILE:
        yield from zip(_passed_on(operation), operation.results, strict=False)
    elif operation.name == _IF:
        for region in range(len(operation.regions)):
            yield from zip(_yielded(operation, region), operation.results, strict=False)


def is_tensor(value: Value) -> bool:
    """Whether a value lives on a device."""
    return value.type.startswith(("tensor<", "!torch.vtensor<", "!hal.buffer_view", "!stream.resource"))


def loops(operation: Operation) -> bool:
    """Whether an operation is a loop."""
    return operation.name in (_FOR, _WHILE)


def _yielded(operation: Operation, region: int) -> list[Value]:
    blocks = operation.regions[region].blocks
    return blocks[0].operations[-1].operands if blocks and blocks[0].operations else []


def _passed_on(operation: Operation) -> list[Value]:
    """What a while loop's condition hands to its body and, in the end, to its results."""
    return _yielded(operation, 0)[1:]
