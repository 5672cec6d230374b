"""Affinities: which device a value is on, where that is said, and where it is contradicted."""

from __future__ import annotations

from collections.abc import Iterator

from triage.lint.finding import LintFinding, LintRule, Severity
from triage.lint.flow import is_tensor
from triage.lint.program import Program, arguments
from triage.mlir import Operation, Value


def missing(program: Program) -> Iterator[LintFinding]:
    """A value that everything else says to be on the first device ends there anyhow: that is advice."""
    first = _first(program)
    for function in program.functions:
        given, wanted = program.interface(function, "arg_attrs"), program.interface(function, "res_attrs")
        if function.attribute("sym_visibility") == '"private"' or not any([*given, *wanted]):
            continue
        consumed = _consumers(program, function)
        for index, value in enumerate(arguments(function)):
            if is_tensor(value) and (index >= len(given) or given[index] is None):
                used = consumed.get(value, set())
                text = f"argument {index} of @{function.symbol} has no affinity, and others have one{_where('used', used)}"
                yield LintFinding("missing-affinity", _risk(used, first), text, value.place or function.place)
        end = function.regions[0].blocks[-1].operations[-1]
        for index, value in enumerate(end.operands):
            if is_tensor(value) and (index >= len(wanted) or wanted[index] is None):
                made = {program.on[value]} if value in program.on else set()
                text = f"result {index} of @{function.symbol} has no affinity, and others have one{_where('computed', made)}"
                yield LintFinding("missing-affinity", _risk(made, first), text, end.place or function.place)


def redundant(program: Program) -> Iterator[LintFinding]:
    """Transfers that move nothing."""
    for one, source, target in _transfers(program):
        if source == target:
            yield LintFinding(
                "redundant-transfer", Severity.ADVICE, f"this moves nothing: the value is on @{target} already", one.place
            )


def mixed(program: Program) -> Iterator[LintFinding]:
    """Operations whose operands are known to be on different devices."""
    if len(set(program.on.values())) < 2:
        return
    for function in program.functions:
        for one in _outer(function):
            if program.carries(one):
                continue
            devices = sorted({program.on[value] for value in program.uses(one) if value in program.on})
            if len(devices) > 1:
                text = f"{one.name} reads values on {_names(devices)}, and nothing transfers them to one device"
                yield LintFinding("mixed-devices", Severity.WARNING, text, one.place)
        yield from _returned(program, function)


def _returned(program: Program, function: Operation) -> Iterator[LintFinding]:
    wanted, end = program.interface(function, "res_attrs"), function.regions[0].blocks[-1].operations[-1]
    for index, (value, device) in enumerate(zip(end.operands, wanted, strict=False)):
        made = program.on.get(value)
        if device and made and made != device:
            text = f"result {index} of @{function.symbol} belongs on @{device} and is on @{made}, without a transfer"
            yield LintFinding("mixed-devices", Severity.WARNING, text, end.place)


def unplaced(program: Program) -> Iterator[LintFinding]:
    """Constant tensors that nobody places, and that are read on a device other than the first; loads of such globals too."""
    first = _first(program)
    mutable = {f"@{one.symbol}" for one in program.module.body.operations if one.attribute("is_mutable") is not None}
    for function in program.functions if program.on else ():
        consumed = _consumers(program, function)
        for one in _outer(function):
            constant = one.name in program.placement.words.constants or (
                one.name in program.placement.words.loads and one.attribute("global") not in mutable
            )
            if not constant or not one.results or not is_tensor(one.results[0]) or one.results[0] in program.on:
                continue
            devices = consumed.get(one.results[0], set())
            if devices - {first}:
                text = f"a constant without affinity is read on {_names(sorted(devices))}; each device needs it there"
                yield LintFinding("unplaced-constant", Severity.ADVICE, text, one.place)


def _transfers(program: Program) -> Iterator[tuple[Operation, str | None, str | None]]:
    for function in program.functions:
        for one in function.walk():
            if one.name in program.placement.words.moves and one.operands:
                yield one, program.on.get(one.operands[0]), program.on.get(one.results[0])


def _outer(function: Operation) -> Iterator[Operation]:
    """A function's operations and those inside of control flow: what computes on whole tensors, not on their elements."""
    for block in function.regions[0].blocks:
        for one in block.operations:
            yield from _control(one)


def _control(one: Operation) -> Iterator[Operation]:
    yield one
    if one.name.startswith("scf."):
        for region in one.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield from _control(inner)


def _consumers(program: Program, function: Operation) -> dict[Value, set[str]]:
    """On which devices a value is read: where the other operands of what reads it are, or where its result is."""
    found: dict[Value, set[str]] = {}
    for one in _outer(function):
        if program.carries(one):
            continue
        values = program.uses(one)
        devices = {program.on[value] for value in (*values, *one.results) if value in program.on}
        for value in values:
            if value not in program.on:
                found.setdefault(value, set()).update(devices)
    return found


def _first(program: Program) -> str:
    return next(iter(program.declared.devices), "__device_0") if program.declared else "__device_0"


def _risk(devices: set[str], first: str) -> Severity:
    return Severity.WARNING if devices - {first} else Severity.ADVICE


def _where(how: str, devices: set[str]) -> str:
    return f"; it is {how} on {_names(sorted(devices))}" if devices else ""


def _names(devices: list[str]) -> str:
    return " and ".join(f"@{name}" for name in devices)


RULES = (
    LintRule(
        "missing-affinity",
        Severity.WARNING,
        "An argument or result without affinity where others of the function have one.",
        missing,
    ),
    LintRule(
        "mixed-devices",
        Severity.WARNING,
        "Operands on different devices, or a result on another one than it belongs on, without a transfer.",
        mixed,
    ),
    LintRule("redundant-transfer", Severity.ADVICE, "A transfer to the device that the value is on already.", redundant),
    LintRule(
        "unplaced-constant",
        Severity.ADVICE,
        "A constant tensor without affinity that is read on another device than the first.",
        unplaced,
    ),
)
