"""Lint rules about devices, affinities, and chains of in-place operations.

The longer a chain, the more iterations the affinity solver needs. Only a compile shows how many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from triage.compilers.analysis import LintFinding, ProgramDevice, Severity
from triage.compilers.iree.devices import declared_in, declaring, position_of
from triage.compilers.iree.lint.program import LOOPS, LintProgram, is_tensor, steps_of
from triage.mlir import SourcePosition, Value

_MAX_FLAGS = 2  # in a message; the suggested flags are listed next to the findings too


def devices_of(program: LintProgram) -> tuple[ProgramDevice, ...]:
    """Return all devices that are declared or referenced, declared ones first."""
    declared = program.declared.devices if program.declared else {}
    counts = Counter(name for name, _ in program.references)
    first = dict(reversed(program.references))
    names = dict.fromkeys([*declared, *sorted(counts, key=_order)])
    return tuple(ProgramDevice(name, declared.get(name), counts[name], first.get(name)) for name in names)


def flags_for(program: LintProgram) -> tuple[str, ...]:
    """Return the options that declare all devices; nothing if all are declared, or if the module declares any itself."""
    devices = devices_of(program)
    wanted = [device.name for device in devices if device.references or (device.declared or "").startswith("-")]
    rejected = program.declared is not None and program.declared.problem is not None
    if not wanted or declared_in(program.module).devices or (all(device.declared for device in devices) and not rejected):
        return ()
    return declaring(sorted(wanted, key=_order), program.backend, program.options)


def undeclared(program: LintProgram) -> Iterator[LintFinding]:
    """A device that the program uses but nothing declares."""
    missing = [device for device in devices_of(program) if device.declared is None]
    flags = [flag for flag in flags_for(program) if flag not in program.options]
    hint = f"; add `{' '.join(flags)}`" if 0 < len(flags) <= _MAX_FLAGS else ""
    if program.declared is None:
        if missing:
            names = ", ".join(f"@{device.name}" for device in missing)
            text = f"the program uses {names}, but no flag declares devices{hint}"
            yield LintFinding("undeclared-device", Severity.WARNING, text, missing[0].position)
        return
    if program.declared.problem:
        return
    known = program.declared.devices
    declared = f"declared: {', '.join(f'@{name}' for name in known)}" if known else "no device is declared"
    for device in missing:
        count = "once" if device.references == 1 else f"{device.references} times"
        text = f"@{device.name} is used {count} but not declared ({declared})"
        position = position_of(device.name)
        if position is not None and any(f"[{position}]" in option for option in known.values()):
            text += "; unnamed devices are numbered by position, not by the number in brackets"
        if program.declared.sole:
            text += f"; remove `{program.declared.sole}`, which disables flags that declare devices"
        yield LintFinding("undeclared-device", Severity.ERROR, text + hint, device.position)


def unused(program: LintProgram) -> Iterator[LintFinding]:
    """A device that is declared but never used."""
    devices = devices_of(program)
    needed = range(1, max((position_of(device.name) or 0 for device in devices if device.references), default=0))
    for device in devices[1:]:  # the first one is the default for values without an affinity
        if device.declared and not device.references and position_of(device.name) not in needed:
            text = f"@{device.name} is declared by `{device.declared}` but not used"
            yield LintFinding("unused-device", Severity.WARNING, text)


def gaps(program: LintProgram) -> Iterator[LintFinding]:
    """A numbered device below the highest one that is never used."""
    first_uses = {position_of(name): source for name, source in reversed(program.references)}
    used = sorted(position for position in first_uses if position is not None)
    holes = [position for position in range(1, max(used, default=0)) if position not in used]
    if holes:
        listed = ", ".join(f"@__device_{position}" for position in holes)
        text = f"the program uses @__device_{used[-1]} but not {listed}; flags count positions, so declare these devices too"
        yield LintFinding("device-gap", Severity.WARNING, text, first_uses[used[-1]])


def rejected(program: LintProgram) -> Iterator[LintFinding]:
    """Flags that name some devices but not all."""
    if program.declared and program.declared.problem:
        yield LintFinding("device-names", Severity.ERROR, program.declared.problem)


def _order(name: str) -> tuple[int, str]:
    position = position_of(name)
    return (position if position is not None else 1 << 30, name)


def missing(program: LintProgram) -> Iterator[LintFinding]:
    """An argument or result without an affinity in a function where others have one."""
    for function, ports in program.ports.items():
        if function.attribute("sym_visibility") == '"private"' or not any(port.device for port in ports):
            continue
        for port in (each for each in ports if each.device is None and is_tensor(each.value)):
            placed = {program.placed[value] for value in [port.value] if value in program.placed}
            devices = program.used_on.get(port.value, set()) if port.kind == "argument" else placed
            where = f"; it is {'used' if port.kind == 'argument' else 'computed'} on {_names(devices)}" if devices else ""
            text = f"{port.kind} {port.index} of @{function.symbol} has no affinity but others have{where}"
            # A value that belongs on the first device ends up there anyway.
            severity = Severity.WARNING if devices - {_first_device(program)} else Severity.ADVICE
            yield LintFinding("missing-affinity", severity, text, port.position)


def redundant(program: LintProgram) -> Iterator[LintFinding]:
    """A transfer to the device that already holds the value."""
    for operation in program.operations:
        if operation.name in program.words.transfers and operation.operands:
            device = program.placed.get(operation.operands[0])
            if device is not None and device == program.placed.get(operation.results[0]):
                text = f"this transfer has no effect: the value is already on @{device}"
                yield LintFinding("redundant-transfer", Severity.ADVICE, text, operation.position)


def mixed(program: LintProgram) -> Iterator[LintFinding]:
    """Operands on different devices, or a result on the wrong device, without a transfer."""
    for operation in program.operations:
        devices = {program.placed[value] for value in program.uses(operation) if value in program.placed}
        if len(devices) > 1 and not program.only_carries(operation):
            text = f"{operation.name} reads values on {_names(devices)} without a transfer to one device"
            yield LintFinding("mixed-devices", Severity.WARNING, text, operation.position)
    for function, ports in program.ports.items():
        for port in ports:
            actual = program.placed.get(port.value)
            if port.kind == "result" and port.device and actual and actual != port.device:
                text = f"result {port.index} of @{function.symbol} belongs on @{port.device} but is on @{actual}"
                yield LintFinding("mixed-devices", Severity.WARNING, f"{text}, without a transfer", port.position)


def unplaced(program: LintProgram) -> Iterator[LintFinding]:
    """A constant tensor without an affinity that is used beyond the first device."""
    words, module = program.words, program.module.body.operations
    mutable = {f"@{operation.symbol}" for operation in module if operation.attribute("is_mutable") is not None}
    for operation in program.operations if program.placed else ():
        is_load = operation.name in words.loads and operation.attribute("global") not in mutable
        for value in operation.results if is_load or operation.name in words.constants else ():
            devices = program.used_on.get(value, set())
            if value not in program.placed and devices - {_first_device(program)}:
                text = f"a constant without an affinity is used on {_names(devices)}; each device needs a copy"
                yield LintFinding("unplaced-constant", Severity.ADVICE, text, operation.position)


def _first_device(program: LintProgram) -> str:
    return next(iter(program.declared.devices), "__device_0") if program.declared else "__device_0"


def _names(devices: Collection[str]) -> str:
    return " and ".join(f"@{name}" for name in sorted(devices))


_MAX_LENGTH = 32  # the solver's original limit of iterations


def longest_chain(program: LintProgram) -> tuple[int, SourcePosition | None]:
    """The length of the longest chain of in-place operations, and the last of them."""
    words, longest, end = program.words, 0, None
    growing = {*LOOPS, *words.passes_on, *words.stores, *words.updates}
    for function in program.functions:
        lengths: dict[Value | str, int] = {}
        """Value -> the longest chain to it; a global is known by its name, and its chain ends with the function."""
        for operation, passed in steps_of(function.regions[0]):
            pairs: list[tuple[Value | str, Value | str]] = [*passed]
            if operation is not None and (name := operation.attribute("global")):
                pairs += [(source, name) for source in operation.operands[:1] if operation.name in words.stores]
                pairs += [(name, target) for target in operation.results[:1] if operation.name in words.loads]
            if operation is not None and (index := words.updates.get(operation.name)) is not None:
                pairs += [(operation.operands[index], target) for target in operation.results]
            for source, target in pairs:
                length = lengths.get(source, 0) + (operation is not None and operation.name in growing)
                lengths[target] = max(lengths.get(target, 0), length)
                if operation is not None and length > longest:
                    longest, end = length, operation.position
    return longest, end


def long_chains(program: LintProgram) -> Iterator[LintFinding]:
    """More than 32 in-place operations in a row."""
    length, end = longest_chain(program)
    if length > _MAX_LENGTH:  # advice: the shape of a program does not determine the number of iterations
        text = (
            f"this is the last of {length} in-place operations in a row; the affinity solver walks the whole chain"
            " and gives up after a number of iterations that differs between releases"
        )
        yield LintFinding("long-chain", Severity.ADVICE, text, end)
