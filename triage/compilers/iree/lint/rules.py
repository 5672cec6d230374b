"""The lint rules: devices, affinities, and chains of in-place operations.

The longer a chain, the more iterations the affinity solver needs. Only a compile shows
how many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from triage.compilers.iree.devices import declaring_options, device_order
from triage.compilers.iree.lint.program import (
    LOAD,
    LOOPS,
    PASSES_ON,
    STORE,
    LintProgram,
    is_carrier,
    is_tensor,
    steps_of,
    tensors_of,
)
from triage.compilers.linter import LintFinding, LintRule, ProgramDevice, Severity
from triage.mlir import Operation, SourcePosition, Value

_MAX_FLAGS = 2  # in a message; the suggested flags are listed next to the findings too
_MAX_CHAIN = 32  # the solver's original limit of iterations
# operation -> index of the operand that it updates in place
_UPDATES = {
    "flow.tensor.update": 0,
    "tensor.insert_slice": 1,
    "tensor.insert": 1,
    "stablehlo.dynamic_update_slice": 0,
}

Messages = Iterator[
    tuple[str, SourcePosition | None] | tuple[str, SourcePosition | None, Severity]
]
"""A message and its position, with a severity that differs from the rule's."""


def findings(program: LintProgram) -> tuple[LintFinding, ...]:
    """Apply all rules to a program."""
    return tuple(
        LintFinding(
            rule.name,
            severity[0] if severity else rule.severity,
            text,
            position=position,
        )
        for rule, check in CHECKS.items()
        for text, position, *severity in check(program)
    )


def devices_of(program: LintProgram) -> tuple[ProgramDevice, ...]:
    """Return all devices that are declared or referenced, declared ones first."""
    declared = program.declared_devices.devices if program.declared_devices else {}
    counts = Counter(name for name, _ in program.references)
    first = dict(reversed(program.references))
    names = dict.fromkeys([*declared, *sorted(counts, key=device_order)])
    return tuple(
        ProgramDevice(name, declared.get(name), counts[name], position=first.get(name))
        for name in names
    )


def flags_for(program: LintProgram) -> tuple[str, ...]:
    """Return the options that declare all devices; nothing if all are declared, or if
    the module declares any itself.
    """
    declared, devices = program.declared_devices, devices_of(program)
    is_rejected = declared is not None and declared.problem is not None
    is_complete = all(device.declared for device in devices) and not is_rejected
    wanted = [
        device.name
        for device in devices
        if device.references or (device.declared or "").startswith("-")
    ]
    if not wanted or program.devices_of_module or is_complete:
        return ()
    wanted.sort(key=device_order)
    return declaring_options(wanted, program.backend, program.options)


def undeclared_devices(program: LintProgram) -> Messages:
    """A device that the program uses but nothing declares, or flags that name some
    devices but not all.
    """
    declared = program.declared_devices
    if declared and declared.problem:
        yield declared.problem, None
        return
    flags = [flag for flag in flags_for(program) if flag not in program.options]
    hint = ""
    if 0 < len(flags) <= _MAX_FLAGS:
        hint = f"; add `{' '.join(flags)}`"
    missing = [device for device in devices_of(program) if device.declared is None]
    if declared is None and missing:
        names = ", ".join(f"@{device.name}" for device in missing)
        text = f"the program uses {names}, but no flag declares devices{hint}"
        yield text, missing[0].position, Severity.WARNING
        return
    for device in missing:
        text = f"@{device.name} is used ({device.references} times) but not declared"
        yield f"{text}{hint}", device.position


def missing_affinities(program: LintProgram) -> Messages:
    """An argument or result without an affinity in a function where others have one."""
    first = "__device_0"
    if program.declared_devices:
        first = next(iter(program.declared_devices.devices), first)
    using: dict[Value, set[str]] = {}
    for operation in program.operations:
        if is_carrier(operation):
            continue
        devices = program.devices_at(operation)
        for value in tensors_of(operation):
            using.setdefault(value, set()).update(devices)
    for function, ports in program.ports.items():
        is_private = function.attribute("sym_visibility") == '"private"'
        if is_private or not any(port.device for port in ports):
            continue
        for port in ports:
            if port.device or not is_tensor(port.value):
                continue
            devices = using.get(port.value, {first})
            if port.kind == "result":
                devices = {program.device_of_value.get(port.value, first)}
            severity = Severity.WARNING
            # A value that belongs on the first device ends up there anyway.
            if devices <= {first}:
                severity = Severity.ADVICE
            text = (
                f"{port.kind} {port.index} of @{function.symbol} has no affinity but "
            )
            yield (
                f"{text}others have; it is used on {_names(devices)}",
                port.position,
                severity,
            )


def mixed_devices(program: LintProgram) -> Messages:
    """Operands on different devices, or a result on the wrong device, without a
    transfer.
    """
    for operation in program.operations:
        devices = program.devices_at(operation)
        if len(devices) > 1 and not is_carrier(operation):
            yield (
                f"{operation.name} reads values on {_names(devices)} without a "
                "transfer to one device",
                operation.position,
            )
    for function, ports in program.ports.items():
        for port in ports:
            actual = program.device_of_value.get(port.value)
            is_moved = port.device and actual and actual != port.device
            if port.kind == "result" and is_moved:
                yield (
                    f"result {port.index} of @{function.symbol} belongs on "
                    f"@{port.device} but is on @{actual}, without a transfer",
                    port.position,
                )


def _names(devices: Collection[str]) -> str:
    return " and ".join(f"@{name}" for name in sorted(devices))


def longest_chain(program: LintProgram) -> tuple[int, SourcePosition | None]:
    """Return the length of the longest chain of in-place operations, and the position
    of the last of them, if that is known.
    """
    longest, end = 0, None
    growing = {*LOOPS, *PASSES_ON, STORE, *_UPDATES}
    for function in program.functions:
        # the longest chain to each value, and to each global, by its name; the chain of
        # a global ends with the function
        lengths: dict[Value | str, int] = {}
        for operation, passed in steps_of(function.regions[0]):
            links = [*passed, *_links(operation)]
            added = int(operation is not None and operation.name in growing)
            for source, target in links:
                length = lengths.get(source, 0) + added
                lengths[target] = max(lengths.get(target, 0), length)
                if length > longest and operation:
                    longest, end = length, operation.position
    return longest, end


def _links(
    operation: Operation | None,
) -> Iterator[tuple[Value | str, Value | str]]:
    """Yield what an operation turns into what: a value that it stores into its global,
    a global into the value that it loads, a value into its update in place.
    """
    if operation is None:
        return
    name = operation.attribute("global")
    if name and operation.name == STORE:
        yield operation.operands[0], name
    elif name and operation.name == LOAD:
        yield name, operation.results[0]
    elif operation.name in _UPDATES:
        source = operation.operands[_UPDATES[operation.name]]
        yield from ((source, target) for target in operation.results)


def long_chains(program: LintProgram) -> Messages:
    """More than 32 in-place operations in a row."""
    length, end = longest_chain(program)
    # advice: the shape of a program does not determine the number of iterations
    if length > _MAX_CHAIN:
        yield (
            f"this is the last of {length} in-place operations in a row; the affinity "
            "solver walks the whole chain and may give up",
            end,
        )


CHECKS: Mapping[LintRule, Callable[[LintProgram], Messages]] = {
    LintRule(name, severity, check.__doc__ or ""): check
    for name, severity, check in (
        ("undeclared-device", Severity.ERROR, undeclared_devices),
        ("missing-affinity", Severity.WARNING, missing_affinities),
        ("mixed-devices", Severity.WARNING, mixed_devices),
        ("long-chain", Severity.ADVICE, long_chains),
    )
}
"""The check of each rule, in documentation order."""
