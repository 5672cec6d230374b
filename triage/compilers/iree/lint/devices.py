"""Lint rules about devices: referenced by the program, declared by options or by the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from triage.compilers.iree.devices import declared_in, declaring, position_of
from triage.compilers.iree.lint.program import LintProgram
from triage.compilers.lint import LintFinding, ProgramDevice, Severity

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
