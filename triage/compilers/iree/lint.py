"""IREE's lint rules: devices, affinities, and chains of in-place operations; and the
flowchart of a program.

The longer a chain, the more iterations the affinity solver needs. Only a compile shows
how many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from triage.compilers.base import LintedCase, LintFinding, Severity
from triage.compilers.iree.lint_program import (
    LOAD,
    PASSES_ON,
    STORE,
    TRANSFER,
    LintProgram,
    devices_at,
    is_tensor,
    steps_of,
    tensors_of,
    terminator,
)
from triage.compilers.iree.targets import missing_options
from triage.mlir import Module, Operation, SourcePosition, Value
from triage.model.revision import Toolchain

_MAX_CHAIN = 32  # the solver's original limit of iterations
# operation -> index of the operand that it updates in place
_UPDATES = {
    "flow.tensor.update": 0,
    "tensor.insert_slice": 1,
    "tensor.insert": 1,
    "stablehlo.dynamic_update_slice": 0,
}
_GROWING = {"scf.for", "scf.while", *PASSES_ON, STORE, *_UPDATES}
_LIMIT = "iree-stream-affinity-solver-max-iterations"
_SOLVER = (
    "The affinity solver needs more iterations than its limit (error). With "
    "--toolchain, the smallest sufficient limit is measured."
)

Messages = Iterator[tuple[Severity, str, SourcePosition | None]]


def _declaring_flags(program: LintProgram) -> tuple[str, ...]:
    """Return the options that declare all devices; nothing if all are declared, or if
    the module declares any itself.
    """
    if program.devices_of_module:
        return ()
    devices = {device.name for device in program.devices}
    return missing_options(devices, program.backend, program.options)


def undeclared_devices(program: LintProgram) -> Messages:
    """A device that the program uses but nothing declares (error; warning if nothing
    declares any).
    """
    flags = [flag for flag in _declaring_flags(program) if flag not in program.options]
    hint = f"; add `{' '.join(flags)}`" if flags else ""
    missing = [device for device in program.devices if device.declared is None]
    if missing and len(missing) == len(program.devices):
        names = ", ".join(f"@{device.name}" for device in missing)
        text = f"the program uses {names}, but no flag declares devices{hint}"
        yield Severity.WARNING, text, missing[0].position
        return
    for device in missing:
        text = f"@{device.name} is used ({device.references} times) but not declared"
        yield Severity.ERROR, f"{text}{hint}", device.position


def missing_affinities(program: LintProgram) -> Messages:
    """An argument or result without an affinity in a function where others have one
    (warning; advice if it is used on the first device only).
    """
    first = program.first_device
    device_of = program.device_of_value
    devices_using: dict[Value, set[str]] = {}
    for operation in program.operations:
        devices = devices_at(operation, device_of)
        for value in tensors_of(operation):
            devices_using.setdefault(value, set()).update(devices)
    for function in program.functions:
        ports = list(program.ports_of(function))
        if not any(port.device for port in ports):
            continue
        for port in ports:
            if port.device or not is_tensor(port.value):
                continue
            devices = devices_using.get(port.value, {first})
            if port.kind == "result":
                devices = {device_of.get(port.value, first)}
            severity = Severity.WARNING
            # A value that belongs on the first device ends up there anyway.
            if devices <= {first}:
                severity = Severity.ADVICE
            text = (
                f"{port.kind} {port.index} of @{function.symbol} has no affinity but "
                f"others have; it is used on {_device_names(devices)}"
            )
            yield severity, text, port.position


def mixed_devices(program: LintProgram) -> Messages:
    """Operands on different devices, or a result on the wrong device, without a
    transfer (warning).
    """
    device_of = program.device_of_value
    for operation in program.operations:
        devices = devices_at(operation, device_of)
        if len(devices) > 1:
            text = (
                f"{operation.name} reads values on {_device_names(devices)} without a "
                "transfer to one device"
            )
            yield Severity.WARNING, text, operation.position
    for function in program.functions:
        for port in program.ports_of(function):
            actual = device_of.get(port.value)
            is_moved = port.device and actual and actual != port.device
            if port.kind == "result" and is_moved:
                text = (
                    f"result {port.index} of @{function.symbol} belongs on "
                    f"@{port.device} but is on @{actual}, without a transfer"
                )
                yield Severity.WARNING, text, port.position


def _device_names(devices: Collection[str]) -> str:
    return " and ".join(f"@{name}" for name in sorted(devices))


def long_chains(program: LintProgram) -> Messages:
    """More than 32 in-place operations in a row (advice)."""
    length, end = _longest_chain(program)
    # advice: the shape of a program does not determine the number of iterations
    if length > _MAX_CHAIN:
        text = (
            f"this is the last of {length} in-place operations in a row; the affinity "
            "solver walks the whole chain and may give up"
        )
        yield Severity.ADVICE, text, end


def _longest_chain(program: LintProgram) -> tuple[int, SourcePosition | None]:
    """Return the length of the longest chain of in-place operations, and the position
    of the last of them, if that is known.
    """
    longest = 0
    end = None
    for function in program.functions:
        # the longest chain to each value, and to each global, by its name; the chain of
        # a global ends with the function
        lengths: dict[Value | str, int] = {}
        for operation, passed in steps_of(function.regions[0]):
            added = int(operation.name in _GROWING)
            for source, target in [*passed, *_value_changes(operation)]:
                length = lengths.get(source, 0) + added
                lengths[target] = max(lengths.get(target, 0), length)
                if length > longest:
                    longest = length
                    end = operation.position
    return longest, end


def _value_changes(operation: Operation) -> Iterator[tuple[Value | str, Value | str]]:
    """Yield what an operation turns into what: a value that it stores into its global,
    a global into the value that it loads, a value into its update in place.
    """
    name = operation.attribute("global") or ""
    if operation.name == STORE:
        yield operation.operands[0], name
    elif operation.name == LOAD:
        yield name, operation.results[0]
    elif operation.name in _UPDATES:
        source = operation.operands[_UPDATES[operation.name]]
        yield from ((source, target) for target in operation.results)


CHECKS: Mapping[str, Callable[[LintProgram], Messages]] = {
    "undeclared-device": undeclared_devices,
    "missing-affinity": missing_affinities,
    "mixed-devices": mixed_devices,
    "long-chain": long_chains,
}
"""The check of each rule, in documentation order."""


def flowchart(program: LintProgram) -> str:
    """Return the devices and transfers of a program in the language of Mermaid, which
    GitHub and many editors draw: a subgraph for each function and a node for each
    device. A loop is drawn as if it ran once.
    """
    lines = ["flowchart TD"]
    for index, function in enumerate(program.functions):
        lines.append(f'  subgraph f{index}["@{function.symbol}"]')
        lines += _function_chart(program, function, f"f{index}n")
        lines.append("  end")
    return "\n".join(lines) + "\n"


def _function_chart(
    program: LintProgram, function: Operation, prefix: str
) -> Iterator[str]:
    """Yield the lines of a subgraph; the names of its nodes begin with `prefix`. An
    operation is on the first known device of its results and operands.
    """
    devices = program.device_of_value
    counts: Counter[str] = Counter()
    moves: Counter[tuple[str, str, str]] = Counter()
    end = terminator(function.regions[0])
    for operation, _ in steps_of(function.regions[0]):
        used = tensors_of(operation)
        values = [*filter(is_tensor, operation.results), *used]
        if not values or operation is end or operation.name.startswith("scf."):
            continue
        device = next((devices[value] for value in values if value in devices), "")
        kind = "moved" if operation.name == TRANSFER else "used"
        counts[device] += int(kind == "used")
        moves.update((devices.get(value, ""), device, kind) for value in used)
    ids = {device: f"{prefix}{number}" for number, device in enumerate(counts)}
    for device, count in counts.items():
        title = f"@{device}" if device else "no device"
        yield f'    {ids[device]}["{title}<br>{count} operations"]'
    for (source, target, kind), count in moves.items():
        if source != target and source in ids:
            arrow = "==>" if kind == "moved" else "-->"
            yield f'    {ids[source]} {arrow}|"{count} {kind}"| {ids[target]}'


class IreeLinter:
    """Checks programs before they are compiled."""

    rules: Mapping[str, str] = {
        **{rule: check.__doc__ or "" for rule, check in CHECKS.items()},
        "solver-iterations": _SOLVER,
    }
    """Rule -> what it looks for."""
    solver_phase = "stream"
    """The first phase that ends after the affinity solver."""
    # Other solvers of this phase have fixed limits.
    solver_failures = frozenset(
        {"affinity-non-convergence", "clone-to-consumers-non-convergence"}
    )

    def solver_option(self, toolchain: Toolchain) -> str | None:
        """Return the option that limits the solver's iterations, up to its `=`. Not
        every version has one.
        """
        if _LIMIT in toolchain.capabilities.flags:
            return f"--{_LIMIT}="
        return None

    def check(
        self, module: Module, options: Sequence[str], backend: str | None
    ) -> LintedCase:
        """Apply all rules to a module that is compiled with these options."""
        program = LintProgram(module, options, backend)
        findings = [
            LintFinding(rule, severity, text, position=position)
            for rule, check in CHECKS.items()
            for severity, text, position in check(program)
        ]
        return LintedCase(
            findings=tuple(findings),
            devices=program.devices,
            suggested_flags=_declaring_flags(program),
            graph=flowchart(program),
            longest_chain=_longest_chain(program)[0],
        )
