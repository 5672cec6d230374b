"""Devices: named by the program, declared by flags or by the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from triage.lint.finding import Device, LintFinding, LintRule, Severity
from triage.lint.program import Program

_SPELLED = 2  # flags in a message; all of them are suggested beside the findings


def devices_of(program: Program) -> tuple[Device, ...]:
    """Every device that the program names or that is declared, declared ones first."""
    declared = program.declared.devices if program.declared else {}
    counts = Counter(name for name, _ in program.references)
    first = dict(reversed(program.references))
    names = dict.fromkeys([*declared, *sorted(counts, key=lambda name: _order(program, name))])
    return tuple(Device(name, declared.get(name), counts[name], first.get(name)) for name in names)


def flags_for(program: Program) -> tuple[str, ...]:
    """The options that declare every device the program names; none where all are declared, and none can be had where the
    module declares devices itself.
    """
    devices = devices_of(program)
    wanted = [one.name for one in devices if one.references or (one.declared or "").startswith("-")]
    refused = program.declared is not None and program.declared.problem is not None
    if all(one.declared for one in devices) and not refused:
        return ()
    if program.placement.declared_in(program.module).devices or not wanted:
        return ()
    wanted.sort(key=lambda name: _order(program, name))
    return program.placement.declaring(wanted, program.backend, program.options)


def undeclared(program: Program) -> Iterator[LintFinding]:
    """One finding for each device that nobody declares; one for all where nothing was said of devices."""
    missing = [one for one in devices_of(program) if one.declared is None]
    flags = [flag for flag in flags_for(program) if flag not in program.options]
    declaring = f"; `{' '.join(flags)}` is missing" if 0 < len(flags) <= _SPELLED else ""
    if program.declared is None:
        if missing:
            names = ", ".join(f"@{one.name}" for one in missing)
            text = f"the program needs {names}, and no flag was given that declares devices{declaring}"
            yield LintFinding("undeclared-device", Severity.WARNING, text, missing[0].place)
        return
    if program.declared.problem:
        return
    known = program.declared.devices
    for one in missing:
        position = program.placement.position(one.name)
        text = f"@{one.name} is declared by nothing ({_told(known)}), and named {_times(one.references)}"
        if position is not None and any(f"[{position}]" in word for word in known.values()):
            text += "; flags without names bind by position, whatever number stands in their brackets"
        if program.declared.sole:
            text += f"; beside `{program.declared.sole}` no flag declares a device, so that it must go"
        yield LintFinding("undeclared-device", Severity.ERROR, text + declaring, one.place)


def unused(program: Program) -> Iterator[LintFinding]:
    """The first device is where everything goes that nobody places, so it is always used."""
    if program.declared is None:
        return
    devices = devices_of(program)
    left_out = range(1, max((program.placement.position(one.name) or 0 for one in devices if one.references), default=0))
    for index, one in enumerate(devices):
        if one.declared and not one.references and index > 0 and program.placement.position(one.name) not in left_out:
            yield LintFinding(
                "unused-device", Severity.WARNING, f"@{one.name} is declared by `{one.declared}` and named nowhere"
            )


def gaps(program: Program) -> Iterator[LintFinding]:
    """Positions that the program leaves out, below one that it names."""
    positions = {program.placement.position(name): place for name, place in reversed(program.references)}
    named = sorted(one for one in positions if one is not None)
    holes = [at for at in range(1, max(named, default=0)) if at not in named]
    if holes:
        listed = ", ".join(f"@__device_{at}" for at in holes)
        text = f"the program names @__device_{named[-1]} and not {listed}: flags count positions, so that these are needed too"
        yield LintFinding("device-gap", Severity.WARNING, text, positions[named[-1]])


def refused(program: Program) -> Iterator[LintFinding]:
    """Flags that the compiler does not take together."""
    if program.declared and program.declared.problem:
        yield LintFinding("device-names", Severity.ERROR, program.declared.problem)


def _order(program: Program, name: str) -> tuple[int, str]:
    position = program.placement.position(name)
    return (position if position is not None else 1 << 30, name)


def _told(declared: dict[str, str]) -> str:
    return f"declared: {', '.join(f'@{name}' for name in declared)}" if declared else "nothing is declared"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


RULES = (
    LintRule(
        "undeclared-device",
        Severity.ERROR,
        "A device that the program names and that no flag, nor the module, declares.",
        undeclared,
    ),
    LintRule(
        "unused-device", Severity.WARNING, "A device that is declared and that nothing in the program is placed on.", unused
    ),
    LintRule("device-gap", Severity.WARNING, "Numbered devices of which one below the highest is never named.", gaps),
    LintRule("device-names", Severity.ERROR, "Flags that name some devices and leave others without a name.", refused),
)
