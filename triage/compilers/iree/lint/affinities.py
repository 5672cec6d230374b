"""Lint rules about affinities: values without a device, on several devices, or transferred in vain."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from triage.compilers.iree.lint.program import LintProgram, is_control_flow, is_tensor
from triage.compilers.lint import LintFinding, Severity
from triage.mlir import Operation, Value
from triage.mlir.tree import arguments_of


def missing(program: LintProgram) -> Iterator[LintFinding]:
    """Report arguments and results without an affinity.

    A value that belongs on the first device ends up there anyway, so that case is advice.
    """
    first = _first_device(program)
    for function in program.functions:
        affinities = {side: program.affinities(function, side) for side in ("arg_attrs", "res_attrs")}
        if function.attribute("sym_visibility") == '"private"' or not any(map(any, affinities.values())):
            continue
        used_on = _devices_of_uses(program, function)
        for index, value in enumerate(arguments_of(function)):
            if is_tensor(value) and not _given(affinities["arg_attrs"], index):
                devices = used_on.get(value, set())
                text = f"argument {index} of @{function.symbol} has no affinity but others have{_on('used', devices)}"
                yield LintFinding("missing-affinity", _risk(devices, first), text, value.position or function.position)
        end = _terminator(function)
        for index, value in enumerate(end.operands):
            if is_tensor(value) and not _given(affinities["res_attrs"], index):
                devices = {program.placed[value]} if value in program.placed else set()
                text = f"result {index} of @{function.symbol} has no affinity but others have{_on('computed', devices)}"
                yield LintFinding("missing-affinity", _risk(devices, first), text, end.position or function.position)


def redundant(program: LintProgram) -> Iterator[LintFinding]:
    """Report transfers to the device that already holds the value."""
    for function in program.functions:
        for operation in function.walk():
            if operation.name in program.words.transfers and operation.operands:
                device = program.placed.get(operation.operands[0])
                if device is not None and device == program.placed.get(operation.results[0]):
                    text = f"this transfer has no effect: the value is already on @{device}"
                    yield LintFinding("redundant-transfer", Severity.ADVICE, text, operation.position)


def mixed(program: LintProgram) -> Iterator[LintFinding]:
    """Report operations whose operands are on different devices, and results on the wrong device."""
    if len(set(program.placed.values())) < 2:
        return
    for function in program.functions:
        for operation in _whole_tensor_operations(function):
            if program.only_carries(operation):
                continue
            devices = {program.placed[value] for value in program.uses(operation) if value in program.placed}
            if len(devices) > 1:
                text = f"{operation.name} reads values on {_names(devices)} without a transfer to one device"
                yield LintFinding("mixed-devices", Severity.WARNING, text, operation.position)
        end = _terminator(function)
        for index, (value, device) in enumerate(zip(end.operands, program.affinities(function, "res_attrs"), strict=False)):
            actual = program.placed.get(value)
            if device and actual and actual != device:
                text = f"result {index} of @{function.symbol} belongs on @{device} but is on @{actual}, without a transfer"
                yield LintFinding("mixed-devices", Severity.WARNING, text, end.position)


def unplaced(program: LintProgram) -> Iterator[LintFinding]:
    """Report constants, and loads of constant globals, without an affinity that are used beyond the first device."""
    first, words = _first_device(program), program.words
    operations = program.module.body.operations
    mutable = {f"@{operation.symbol}" for operation in operations if operation.attribute("is_mutable") is not None}
    for function in program.functions if program.placed else ():
        used_on = _devices_of_uses(program, function)
        for operation in _whole_tensor_operations(function):
            load = operation.name in words.loads and operation.attribute("global") not in mutable
            constant = load or operation.name in words.constants
            if not constant or not operation.results or not is_tensor(operation.results[0]):
                continue
            devices = used_on.get(operation.results[0], set())
            if operation.results[0] not in program.placed and devices - {first}:
                text = f"a constant without an affinity is used on {_names(devices)}; each device needs a copy"
                yield LintFinding("unplaced-constant", Severity.ADVICE, text, operation.position)


def _given(affinities: list[str | None], index: int) -> bool:
    return index < len(affinities) and affinities[index] is not None


def _terminator(function: Operation) -> Operation:
    return function.regions[0].blocks[-1].operations[-1]


def _whole_tensor_operations(function: Operation) -> Iterator[Operation]:
    """Yield a function's operations and those in its control flow, but not those on single elements."""
    for block in function.regions[0].blocks:
        for operation in block.operations:
            yield from _with_control_flow(operation)


def _with_control_flow(operation: Operation) -> Iterator[Operation]:
    yield operation
    for region in operation.regions if is_control_flow(operation) else ():
        for block in region.blocks:
            for inner in block.operations:
                yield from _with_control_flow(inner)


def _devices_of_uses(program: LintProgram, function: Operation) -> dict[Value, set[str]]:
    """Map each value without a device to the devices of the operations that use it."""
    found: dict[Value, set[str]] = {}
    for operation in _whole_tensor_operations(function):
        if program.only_carries(operation):
            continue
        values = program.uses(operation)
        devices = {program.placed[value] for value in (*values, *operation.results) if value in program.placed}
        for value in values:
            if value not in program.placed:
                found.setdefault(value, set()).update(devices)
    return found


def _first_device(program: LintProgram) -> str:
    return next(iter(program.declared.devices), "__device_0") if program.declared else "__device_0"


def _risk(devices: set[str], first: str) -> Severity:
    return Severity.WARNING if devices - {first} else Severity.ADVICE


def _on(verb: str, devices: Collection[str]) -> str:
    return f"; it is {verb} on {_names(devices)}" if devices else ""


def _names(devices: Collection[str]) -> str:
    return " and ".join(f"@{name}" for name in sorted(devices))
