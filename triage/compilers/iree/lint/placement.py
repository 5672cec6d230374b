"""Lint rules about devices, affinities, and chains of in-place operations and of transfers.

The longer a chain, the more iterations the affinity solver needs. Only a compile shows how many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from triage.compilers.analysis import LintFinding, ProgramDevice, Severity
from triage.compilers.iree.devices import declared_in, declaring, position_of
from triage.compilers.iree.lint.program import LOOPS, LintProgram, is_control_flow, is_tensor, returned_by, steps_of
from triage.mlir import Operation, SourcePosition, Value
from triage.mlir.tree import arguments_of

_MAX_FLAGS = 2  # in a message; the suggested flags are listed beside the findings too


def devices_of(program: LintProgram) -> tuple[ProgramDevice, ...]:
    """Return all devices that are declared or referenced, declared ones first."""
    declared = program.declared.devices if program.declared else {}
    counts = Counter(name for name, _ in program.references)
    first = dict(reversed(program.references))
    names = dict.fromkeys([*declared, *sorted(counts, key=_order)])
    return tuple(ProgramDevice(name, declared.get(name), counts[name], first.get(name)) for name in names)


def flags_for(program: LintProgram) -> tuple[str, ...]:
    """Return the options that declare all devices of the program.

    Returns:
        Nothing if all are declared, or if the module declares devices itself.
    """
    devices = devices_of(program)
    wanted = [device.name for device in devices if device.references or (device.declared or "").startswith("-")]
    rejected = program.declared is not None and program.declared.problem is not None
    if all(device.declared for device in devices) and not rejected:
        return ()
    if declared_in(program.module).devices or not wanted:
        return ()
    return declaring(sorted(wanted, key=_order), program.backend, program.options)


def undeclared(program: LintProgram) -> Iterator[LintFinding]:
    """Report each undeclared device; all of them in one finding if nothing declares devices."""
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
    """Report devices that are declared but not used. The first one is the default for values without an affinity."""
    if program.declared is None:
        return
    devices = devices_of(program)
    needed = range(1, max((position_of(device.name) or 0 for device in devices if device.references), default=0))
    for device in devices[1:]:
        if device.declared and not device.references and position_of(device.name) not in needed:
            text = f"@{device.name} is declared by `{device.declared}` but not used"
            yield LintFinding("unused-device", Severity.WARNING, text)


def gaps(program: LintProgram) -> Iterator[LintFinding]:
    """Report positions below the highest one that the program never uses."""
    first_uses = {position_of(name): source for name, source in reversed(program.references)}
    used = sorted(position for position in first_uses if position is not None)
    holes = [position for position in range(1, max(used, default=0)) if position not in used]
    if holes:
        listed = ", ".join(f"@__device_{position}" for position in holes)
        text = f"the program uses @__device_{used[-1]} but not {listed}; flags count positions, so declare these devices too"
        yield LintFinding("device-gap", Severity.WARNING, text, first_uses[used[-1]])


def rejected(program: LintProgram) -> Iterator[LintFinding]:
    """Report flags that the compiler rejects in combination."""
    if program.declared and program.declared.problem:
        yield LintFinding("device-names", Severity.ERROR, program.declared.problem)


def _order(name: str) -> tuple[int, str]:
    position = position_of(name)
    return (position if position is not None else 1 << 30, name)


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
        end = returned_by(function)
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
        for operation, _ in steps_of(function):
            if operation is None or program.only_carries(operation):
                continue
            devices = {program.placed[value] for value in program.uses(operation) if value in program.placed}
            if len(devices) > 1:
                text = f"{operation.name} reads values on {_names(devices)} without a transfer to one device"
                yield LintFinding("mixed-devices", Severity.WARNING, text, operation.position)
        end = returned_by(function)
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
        for operation, _ in steps_of(function):
            if operation is None or not operation.results or not is_tensor(operation.results[0]):
                continue
            is_load = operation.name in words.loads and operation.attribute("global") not in mutable
            if not is_load and operation.name not in words.constants:
                continue
            devices = used_on.get(operation.results[0], set())
            if operation.results[0] not in program.placed and devices - {first}:
                text = f"a constant without an affinity is used on {_names(devices)}; each device needs a copy"
                yield LintFinding("unplaced-constant", Severity.ADVICE, text, operation.position)


def _given(affinities: list[str | None], index: int) -> bool:
    return index < len(affinities) and affinities[index] is not None


def _devices_of_uses(program: LintProgram, function: Operation) -> dict[Value, set[str]]:
    """Map each value without a device to the devices of the operations that use it."""
    found: dict[Value, set[str]] = {}
    for operation, _ in steps_of(function):
        if operation is None or program.only_carries(operation):
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


_MAX_LENGTH = 32  # the solver's original limit of iterations


class _Chains:
    """The chains of in-place operations and of transfers in a program."""

    def __init__(self, program: LintProgram) -> None:
        self.words = program.words
        self.longest: tuple[int, SourcePosition | None] = (0, None)
        """Of in-place operations: the length, and the position of the last one."""
        self.transfers: dict[str, tuple[int, SourcePosition | None]] = {}
        """Device -> the longest chain of transfers to it."""
        moved: dict[Value, int] = {}
        """Value -> the largest number of transfers on the way to it."""
        for function in program.functions:
            self.tied: dict[Value | str, int] = {}
            """Value -> the longest chain to it; a global is known by its name, and its chain ends with the function."""
            for operation, pairs in steps_of(function):
                for source, target in pairs:
                    moved[target] = max(moved.get(target, 0), moved.get(source, 0))
                    self.tied[target] = max(self.tied.get(target, 0), self.tied.get(source, 0))
                    if operation is not None and operation.name in LOOPS:
                        self.tied[target] = max(self.tied[target], self._link(operation, source))
                if operation is None:
                    continue
                self._tie(operation)
                if not is_control_flow(operation):
                    count = max((moved.get(value, 0) for value in program.uses(operation)), default=0)
                    if operation.name in self.words.transfers:
                        count += 1
                        device = program.placed.get(operation.results[0])
                        if device and count > self.transfers.get(device, (0, None))[0]:
                            self.transfers[device] = count, operation.position
                    moved |= dict.fromkeys(operation.results, count)

    def _tie(self, operation: Operation) -> None:
        if operation.name in self.words.stores and operation.operands:
            self.tied[operation.attribute("global") or ""] = self._link(operation, operation.operands[0])
        elif operation.name in self.words.loads and operation.results:
            self.tied[operation.results[0]] = self.tied.get(operation.attribute("global") or "", 0)
        elif (index := self.words.updates.get(operation.name)) is not None and operation.results:
            self.tied[operation.results[0]] = self._link(operation, operation.operands[index])
        elif operation.name in self.words.passes_on:
            for source, target in zip(operation.operands, operation.results, strict=False):
                self.tied[target] = self._link(operation, source)

    def _link(self, operation: Operation, source: Value) -> int:
        length = self.tied.get(source, 0) + 1
        if length > self.longest[0]:
            self.longest = length, operation.position
        return length


def longest_chain(program: LintProgram) -> int:
    """The length of the longest chain of in-place operations."""
    return _Chains(program).longest[0]


def long_chains(program: LintProgram) -> Iterator[LintFinding]:
    """Report long chains as advice: the shape of a program does not determine the number of iterations."""
    chains = _Chains(program)
    length, end = chains.longest
    if length > _MAX_LENGTH:
        text = (
            f"this is the last of {length} in-place operations in a row; the affinity solver walks the whole chain"
            " and gives up after a number of iterations that differs between releases"
        )
        yield LintFinding("long-chain", Severity.ADVICE, text, end)
    for device, (length, end) in chains.transfers.items():
        if length > _MAX_LENGTH:
            text = f"this is the last of {length} transfers in a row, on @{device}"
            yield LintFinding("long-chain", Severity.ADVICE, text, end)
